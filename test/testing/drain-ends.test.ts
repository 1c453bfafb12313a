import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { drainJobs } from "drizzle-queue/testing";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createEmptyDatabase } from "../support/database.js";
import { openRoom, type Room } from "../worker/room.js";

const queue = createQueue({
  jobs: defineJobs({
    work: defineJob({ payload: z.object({}) }),
    other: defineJob({ payload: z.object({}) }),
  }),
});
const handlers = { work: () => undefined, other: () => undefined };
const hanging = { ...handlers, work: () => new Promise<void>(() => undefined) };

/** Long enough for a worker to start its first job, in milliseconds. */
const HANGS_MS = 1_000;

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(async () => {
  const left = await room.rows("select id from queue_workers");
  await room.clear();
  // Its sessions would also keep the room from closing.
  if (left.length > 0) throw new Error("The test left a worker running.");
});
afterAll(() => room.close());

const enqueue = () => queue.enqueueNow(room.db, "work", {});
const timeOut = (message: RegExp) =>
  expect.objectContaining({
    code: "TEST_TIMED_OUT",
    message: expect.stringMatching(message),
  });

describe("once its time is up, a drain says what is left:", () => {
  test("a handler that ends when it is aborted", async () => {
    const { id } = await enqueue();
    const reasons: unknown[] = [];
    const draining = drainJobs({
      queue,
      db: room.db,
      timeoutMs: HANGS_MS,
      handlers: {
        ...handlers,
        work: ({ signal }) =>
          new Promise((resolve) => {
            signal.addEventListener("abort", () => {
              reasons.push(signal.reason.code);
              resolve();
            });
          }),
      },
    });
    await expect(draining).rejects.toEqual(
      timeOut(
        new RegExp(`not drained after ${HANGS_MS} ms: left is "work" ${id} \\(running\\)\\. `),
      ),
    );
    expect(reasons).toEqual(["WORKER_STOPPING"]);
    // It returned all the same, so its job is done.
    expect((await room.job(id))?.status).toBe("done");
  });

  test("one that hangs for ever, and those behind it", async () => {
    const startedAt = performance.now();
    for (let n = 0; n < 7; n += 1) await enqueue();
    const draining = drainJobs({ queue, db: room.db, timeoutMs: HANGS_MS, handlers: hanging });
    await expect(draining).rejects.toEqual(
      timeOut(/left are "work" \d+ \(running\), "work" \d+ \(due\), .* and 2 more\. /),
    );
    expect(performance.now() - startedAt).toBeLessThan(HANGS_MS + 3_000);
    expect(await room.rows("select id from queue_jobs where status = 'running'")).toHaveLength(1);
  });

  test("one that has the last connection of the pool", async () => {
    const pool = new pg.Pool({ connectionString: room.url, max: 1 });
    let letGo = (): void => {};
    const held = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const { id } = await enqueue();
    const draining = drainJobs({
      queue,
      db: drizzle(pool),
      timeoutMs: HANGS_MS,
      handlers: { ...handlers, work: ({ commit }) => commit(() => held) },
    });
    await expect(draining).rejects.toEqual(timeOut(new RegExp(`"work" ${id} \\(running\\)`)));
    letGo();
    await pool.end();
  });

  test("a handler that goes on after its commit", async () => {
    const { id } = await enqueue();
    const draining = drainJobs({
      queue,
      db: room.db,
      timeoutMs: HANGS_MS,
      handlers: {
        ...handlers,
        work: async ({ commit }) => {
          await commit(() => undefined);
          await hanging.work();
        },
      },
    });
    await expect(draining).rejects.toEqual(timeOut(new RegExp(`"work" ${id} \\(running\\)`)));
    expect((await room.job(id))?.status).toBe("done");
  });

  test("a job that a transaction of the test has locked", async () => {
    const { id } = await enqueue();
    await room.db.transaction(async (tx) => {
      await tx.execute(`select from queue_jobs where id = ${id} for update`);
      const draining = drainJobs({ queue, db: room.db, handlers, timeoutMs: 150 });
      await expect(draining).rejects.toEqual(timeOut(new RegExp(`left is "work" ${id} \\(due\\)`)));
    });
    expect((await drainJobs({ queue, db: room.db, handlers })).done).toMatchObject([{ id }]);
  });

  test("a chain of jobs that never ends", async () => {
    await enqueue();
    const draining = drainJobs({
      queue,
      db: room.db,
      timeoutMs: 300,
      handlers: {
        ...handlers,
        work: ({ commit }) => commit((tx) => queue.enqueue(tx, "work", {})),
      },
    });
    await expect(draining).rejects.toEqual(timeOut(/not drained after 300 ms/));
  });

  test("a server that is not there", async () => {
    const pool = new pg.Pool({ connectionString: "postgres://localhost:1/nowhere" });
    const draining = drainJobs({ queue, db: drizzle(pool), handlers, timeoutMs: 150 });
    await expect(draining).rejects.toMatchObject({ cause: { code: "ECONNREFUSED" } });
    await pool.end();
  });
});

test("a database without the tables is told as a worker tells it", async () => {
  const database = await createEmptyDatabase();
  const draining = drainJobs({ queue, db: drizzle(database.pool), handlers });
  await expect(draining).rejects.toMatchObject({ code: "TABLES_MISSING" });
  await database.drop();
});

test("a statement that the database refuses ends the drain with the database's error", async () => {
  await enqueue();
  await room.rows("create role looker");
  await room.rows("grant select on all tables in schema public to looker");
  const pool = new pg.Pool({ connectionString: room.url, options: "-c role=looker" });
  const draining = drainJobs({ queue, db: drizzle(pool), handlers, runsScheduled: true });
  await expect(draining).rejects.toMatchObject({ cause: { code: "42501" } });
  await pool.end();
  await room.rows("drop owned by looker");
  await room.rows("drop role looker");
});

describe("a wrong call is refused before anything runs:", () => {
  const wrong: Readonly<Record<string, readonly [object, string, string]>> = {
    "an unknown option": [{ runScheduled: true }, "INVALID_OPTION", "runScheduled"],
    "no answer to yes or no": [{ runsScheduled: 1 }, "INVALID_OPTION", "runsScheduled must be"],
    "no time": [{ timeoutMs: 0 }, "INVALID_OPTION", "timeoutMs must be"],
    "no queue": [{ queue: undefined }, "INVALID_OPTION", "queue must be"],
    "a handler too few": [{ handlers: { work: handlers.work } }, "INVALID_OPTION", '"other"'],
    "an unknown job": [{ only: ["wrok"] }, "UNKNOWN_JOB", "wrok"],
    "no slot": [{ concurrency: 0 }, "INVALID_OPTION", "concurrency"],
  };

  test.each(Object.entries(wrong))("%s", async (_, [more, code, message]) => {
    const draining = drainJobs({ queue, db: room.db, handlers, ...more });
    await expect(draining).rejects.toMatchObject({ code });
    await expect(draining).rejects.toThrow(message);
  });

  test("a transaction", async () => {
    await room.db.transaction(async (tx) => {
      const draining = drainJobs({ queue, db: tx as never, handlers });
      await expect(draining).rejects.toThrow("the database, not a transaction");
    });
  });
});
