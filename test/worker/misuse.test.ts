import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker, logEvents, type WorkerOptions } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createDatabase, createEmptyDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy } from "../support/events.js";
import { createTcpProxy } from "../support/tcp-proxy.js";

const queue = createQueue({
  jobs: defineJobs({ report: defineJob({ payload: z.object({}) }) }),
});
const handlers = { report: () => {} };
const db = drizzle(new pg.Pool());

type Options = WorkerOptions<typeof queue.jobs, typeof db, "report">;
const create = (options: unknown) => () => createWorker(options as Options);

/** A worker on a pool, and what it tells. */
function observedWorker(pool: pg.Pool) {
  const spy = createEventSpy();
  const worker = createWorker({
    queue,
    db: drizzle(pool),
    handlers,
    instrumentation: spy.listener,
  });
  return { worker, spy };
}

describe("createWorker says what is wrong with its options", () => {
  test.each<[string, unknown, string]>([
    ["no options", undefined, "createWorker() must be an object, got undefined."],
    ["no queue", { db, handlers }, "createWorker(): queue must be made by createQueue()"],
    ["no db", { queue, handlers }, "createWorker(): db must be a Drizzle database"],
    ["a URL for db", { queue, handlers, db: "postgres://" }, "got string"],
    ["a bare pool for db", { queue, handlers, db: new pg.Pool() }, "such as drizzle(pool)"],
    ["no handlers", { queue, db }, "createWorker(): handlers must be an object"],
    [
      "an empty registry",
      { queue: createQueue({ jobs: {} }), db, handlers: {} },
      "createWorker(): queue.jobs must be a registry of at least one job",
    ],
    [
      "a handler for no job",
      { queue, db, handlers: { ...handlers, other: () => {} } },
      'handlers: "other" is not a job of the registry',
    ],
    ["null for the queues", { queue, db, handlers, queues: null }, "queues must be a list"],
    [
      "null for the instrumentation",
      { queue, db, handlers, instrumentation: null },
      "createWorker(): instrumentation.event must be a function",
    ],
    [
      "an option of a job",
      { queue, db, handlers, leaseMs: 1_000 },
      'unknown option "leaseMs". It is an option of defineJob().',
    ],
    ["a misspelt option", { queue, db, handlers, concurency: 3 }, 'unknown option "concurency"'],
  ])("%s", (_, options, message) => {
    expect(create(options)).toThrow(
      expect.objectContaining({
        code: "INVALID_OPTION",
        message: expect.stringContaining(message) as string,
      }),
    );
  });

  test.each<[string, object, string]>([
    ["a single client", drizzle(new pg.Client()), "a single Client: give drizzle() a Pool"],
    ["nothing", Object.assign(Object.create(db) as object, { $client: undefined }), "on nothing"],
  ])("a database on %s", (_, given, message) => {
    expect(create({ queue, db: given, handlers })).toThrow(
      expect.objectContaining({
        code: "UNSUPPORTED_DRIVER",
        message: expect.stringContaining(message) as string,
      }),
    );
  });
});

describe("with handlers that workers share", () => {
  const shared = createQueue({
    jobs: defineJobs({
      a: defineJob({ payload: z.object({}) }),
      b: defineJob({ payload: z.object({}) }),
    }),
  });

  test("a worker that serves some jobs only leaves the other handlers aside", () => {
    const all = { a: () => {}, b: () => {} };
    expect(createWorker({ queue: shared, db, only: ["a"], handlers: all }).id).toBeTypeOf("string");
  });

  test("a name that the registry does not know is refused all the same", () => {
    const all = { a: () => {}, b: () => {}, toString: () => {} };
    expect(() => createWorker({ queue: shared, db, only: ["a"], handlers: all })).toThrow(
      expect.objectContaining({
        code: "INVALID_OPTION",
        message: expect.stringContaining('"toString" is not a job of the registry') as string,
      }),
    );
  });
});

describe("stop", () => {
  const worker = createWorker({ queue, db, handlers });
  const stop = worker.stop as (...given: unknown[]) => Promise<unknown>;

  test.each([["SIGTERM", 15], [0], [undefined]])(
    "takes %j, as a listener is called, for no options",
    async (...given) => {
      expect(await stop(...given)).toEqual({ released: 0, abandoned: [] });
    },
  );

  test.each([[null], [{ gracePeriodMs: -1 }], [{ gracePeriodMs: "5" }], [{ grace: 5 }]])(
    "rejects with %j, and does not throw",
    async (given) => {
      await expect(stop(given)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    },
  );
});

test.each([
  ["nothing", undefined, "debug of the logger"],
  ["a logger without a level", { ...console, warn: undefined }, "warn of the logger"],
])("logEvents refuses %s", (_, logger, message) => {
  expect(() => logEvents(logger as never)).toThrow(
    expect.objectContaining({
      code: "INVALID_OPTION",
      message: expect.stringContaining(message) as string,
    }),
  );
});

describe("missing tables", () => {
  let empty: TestDatabase;
  beforeAll(async () => {
    empty = await createEmptyDatabase();
  });
  afterAll(() => empty.drop());

  test("refuse the start, saying what to do", async () => {
    const worker = createWorker({ queue, db: drizzle(empty.pool), handlers });
    await expect(worker.start()).rejects.toMatchObject({
      code: "TABLES_MISSING",
      message: expect.stringContaining("run drizzle-kit generate and migrate") as string,
    });
  });

  test("are told as such, too, when the database was out of reach at the start", async () => {
    const proxy = await createTcpProxy(empty.url);
    proxy.refuse();
    const pool = new pg.Pool({ connectionString: proxy.url });
    const { worker, spy } = observedWorker(pool);
    await worker.start();
    proxy.resume();
    const told = await spy.next(
      "statement.errored",
      ({ error }) => error.code === "TABLES_MISSING",
    );
    expect(told.error.message).toContain("run drizzle-kit generate and migrate");
    await worker.stop();
    await pool.end();
    await proxy.close();
  });
});

test("a worker with a wrong address stops at once: no claim of it has ever reached a server", async () => {
  // Nobody listens at port 1.
  const pool = new pg.Pool({ connectionString: "postgres://postgres@127.0.0.1:1/app" });
  const { worker, spy } = observedWorker(pool);
  await worker.start();
  await spy.next("statement.errored", ({ statement }) => statement === "claim");
  // Longer than a test may take.
  expect(await worker.stop({ gracePeriodMs: 600_000 })).toEqual({ released: 0, abandoned: [] });
  const errored = spy.all("statement.errored").map(({ statement }) => statement);
  expect(errored).not.toContain("release strays");
  await pool.end();
});

test("start while it runs is refused, and the worker goes on", async () => {
  const database = await createDatabase();
  const { worker, spy } = observedWorker(database.pool);
  await worker.start();
  await expect(worker.start()).rejects.toMatchObject({ code: "WORKER_STATE" });
  await queue.enqueueNow(drizzle(database.pool), "report", {});
  await spy.next("job.done");
  await worker.stop();
  await database.drop();
});

test("worker.started tells which queues and jobs are served", async () => {
  const database = await createDatabase();
  const spy = createEventSpy();
  const worker = createWorker({
    queue,
    db: drizzle(database.pool),
    handlers,
    queues: ["reports"],
    instrumentation: spy.listener,
  });
  await worker.start();
  expect(await spy.next("worker.started")).toMatchObject({
    queues: ["reports"],
    names: ["report"],
  });
  await worker.stop();
  await database.drop();
});
