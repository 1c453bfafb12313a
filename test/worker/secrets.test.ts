import { inspect } from "node:util";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import {
  createQueue,
  defineJob,
  defineJobs,
  fixed,
  type Instrumentation,
  isQueueError,
} from "drizzle-queue";
import { createWorker, logEvents } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { createTcpProxy } from "../support/tcp-proxy.js";
import { openRoom, type Room } from "./room.js";

const MARKER = "s3cret-marker-4711";

const queue = createQueue({
  jobs: defineJobs({
    insert: defineJob({
      payload: z.object({ value: z.string() }),
      idempotencyKey: ({ value }) => value.length.toString(),
      maxAttempts: 2,
      backoff: fixed({ delayMs: 0 }),
    }),
    result: defineJob({
      payload: z.object({ value: z.string() }),
      result: z.object({ pages: z.number(), kind: z.enum(["a", "b"]) }),
      maxAttempts: 1,
    }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
  await room.rows("create table effects (value text unique, big text check (length(big) < 3))");
});
afterEach(async () => {
  await room.clear();
  await room.rows("truncate effects");
});
afterAll(() => room.close());

/** Everything that a worker says: its events, and its log in both shapes. */
function recorder(): { readonly listener: Instrumentation; text(): string } {
  const said: unknown[] = [];
  const write = (...parts: unknown[]) => void said.push(parts);
  const console = logEvents({ debug: write, info: write, warn: write, error: write });
  const pino = logEvents({
    bindings: () => ({}),
    debug: write,
    info: write,
    warn: write,
    error: write,
  });
  return {
    listener: {
      event(event) {
        said.push(event);
        console.event(event);
        pino.event(event);
        room.spy.listener.event(event);
      },
    },
    text: () => JSON.stringify(said),
  };
}

const storedText = async () => {
  const rows = await room.rows("select last_error, error_history from queue_jobs");
  return JSON.stringify(rows);
};

test("a query of the app that fails inside a handler does not carry its values to events and rows", async () => {
  const recorded = recorder();
  await using worker = createWorker({
    queue,
    db: room.db,
    pollIntervalMs: 50,
    instrumentation: recorded.listener,
    handlers: {
      insert: async ({ payload, job, commit }) => {
        const statement = sql`insert into effects values (${payload.value}, ${payload.value})`;
        if (job.attempt === 1) await room.db.execute(statement);
        await commit(async (tx) => {
          await tx.execute(statement);
        });
      },
      result: () => ({ pages: 1, kind: "a" }),
    },
  });
  await worker.start();
  await queue.enqueueNow(room.db, "insert", { value: MARKER });
  await room.spy.next("attempt.errored");
  await room.spy.next("job.failed");
  expect(await storedText()).toContain("effects_big_check");
  expect(await storedText()).not.toContain(MARKER);
  expect(recorded.text()).toContain("effects_big_check");
  expect(recorded.text()).not.toContain(MARKER);
});

test("a value that the database cannot read is not quoted in what is stored and told", async () => {
  const recorded = recorder();
  await using worker = createWorker({
    queue,
    db: room.db,
    pollIntervalMs: 50,
    instrumentation: recorded.listener,
    handlers: {
      insert: async ({ payload, job }) => {
        if (job.attempt === 1) await room.db.execute(sql`select ${payload.value}::int`);
        await room.pool.query("select $1::uuid", [payload.value]);
      },
      result: () => ({ pages: 1, kind: "a" }),
    },
  });
  await worker.start();
  await queue.enqueueNow(room.db, "insert", { value: MARKER });
  await room.spy.next("job.failed");
  expect(await storedText()).toContain("invalid input syntax for type integer");
  expect(await storedText()).toContain("invalid input syntax for type uuid");
  expect(`${await storedText()}${recorded.text()}`).not.toContain(MARKER);
});

test("a result that does not fit is described without its values", async () => {
  const recorded = recorder();
  await using worker = createWorker({
    queue,
    db: room.db,
    pollIntervalMs: 50,
    instrumentation: recorded.listener,
    handlers: {
      insert: () => {},
      result: ({ payload }) => ({ pages: payload.value, kind: payload.value }) as never,
    },
  });
  await worker.start();
  await queue.enqueueNow(room.db, "result", { value: MARKER });
  await room.spy.next("job.failed");
  expect(await storedText()).toContain("RESULT_INVALID");
  expect(`${await storedText()}${recorded.text()}`).not.toContain(MARKER);
});

test("a payload that does not fit is refused without being printed", async () => {
  const invalid = await queue
    .enqueueNow(room.db, "insert", { value: { text: MARKER } as never })
    .catch((error: unknown) => error);
  expect(isQueueError(invalid, "INVALID_PAYLOAD")).toBe(true);
  expect(inspect(invalid, { depth: 9 })).not.toContain(MARKER);
});

test("a lost connection is reported without the password of its URL", async () => {
  const recorded = recorder();
  const proxy = await createTcpProxy(room.url);
  const pool = new pg.Pool({ connectionString: proxy.url });
  const worker = createWorker({
    queue,
    db: drizzle(pool),
    pollIntervalMs: 50,
    instrumentation: recorded.listener,
    handlers: { insert: () => {}, result: () => ({ pages: 1, kind: "a" }) },
  });
  await worker.start();
  proxy.refuse();
  proxy.cut();
  await room.spy.next("connection.lost");
  await room.spy.next("statement.errored");
  proxy.resume();
  await queue.enqueueNow(room.db, "insert", { value: MARKER });
  await room.spy.next("job.done");
  await worker.stop();
  await pool.end();
  await proxy.close();
  const { password } = new URL(room.url);
  expect(password.length).toBeGreaterThan(8);
  expect(recorded.text()).not.toContain(password);
});
