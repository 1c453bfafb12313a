import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker, type Worker } from "drizzle-queue/worker";
import type pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy, type EventSpy } from "../support/events.js";

/** How long the transaction stays open after its enqueue, in milliseconds. */
const OPEN_MS = 3_000;
/** How soon after its commit the job starts at the latest, in milliseconds. */
const SOON_MS = 1_500;

const jobs = defineJobs({
  late: defineJob({ payload: z.object({}) }),
  other: defineJob({ payload: z.object({}) }),
});

let database: TestDatabase;
let db: ReturnType<typeof drizzle>;
let spy: EventSpy;
let queue: ReturnType<typeof createQueue<typeof jobs>>;
let worker: Worker;

beforeAll(async () => {
  database = await createDatabase();
  db = drizzle(database.pool);
});

beforeEach(async () => {
  spy = createEventSpy();
  queue = createQueue({ jobs, instrumentation: spy.listener });
  worker = createWorker({
    queue,
    db,
    // Far sweeps, which would find it too, are as far apart as polls.
    pollIntervalMs: 60_000,
    handlers: { late: () => undefined, other: () => undefined },
  });
  await worker.start();
});

afterEach(() => worker.stop({ gracePeriodMs: 0 }));
afterAll(() => database.drop());

/** Opens a transaction, enqueues, commits 3 s later; others enqueue and commit all the while. */
async function startDelayAfterLateCommit(): Promise<number> {
  await db.transaction(async (tx) => {
    await queue.enqueue(tx, "late", {});
    const until = performance.now() + OPEN_MS;
    while (performance.now() < until) {
      await queue.enqueueNow(db, "other", {});
      await spy.next("job.done", ({ jobName }) => jobName === "other");
    }
  });
  const committedAt = performance.now();
  await spy.next("job.started", ({ jobName }) => jobName === "late", 20_000);
  return performance.now() - committedAt;
}

describe("a job whose transaction stayed open for three seconds while others came and went", () => {
  test("starts soon after its commit", async () => {
    expect(await startDelayAfterLateCommit()).toBeLessThan(SOON_MS);
  });

  test("starts as soon with 600,000 dead entries that an old snapshot keeps in the index", async () => {
    const snapshot = await holdSnapshot();
    // The last of them becomes past while the test runs: they lie where claims and sweeps of now look.
    await db.transaction(async (tx) => {
      await tx.execute(
        `insert into queue_jobs (queue, name, payload, available_at)
           select 'default', 'late', '{}', statement_timestamp() + interval '15 s' - n * interval '0.1 ms'
           from generate_series(1, 600000) as n`,
      );
      await tx.execute("delete from queue_jobs where finished_at is null");
    });
    const delayMs = await startDelayAfterLateCommit();
    const stats = "select pg_relation_size('queue_jobs_ready_idx') > 15 * 1024 * 1024 as is_large";
    expect((await database.pool.query(stats)).rows).toEqual([{ is_large: true }]);
    snapshot.release(true);
    expect(delayMs).toBeLessThan(SOON_MS);
  });
});

/** A transaction as a report or a dump has it: while it is open, nothing that died since is cleaned away. */
async function holdSnapshot(): Promise<pg.PoolClient> {
  const client = await database.pool.connect();
  await client.query("begin isolation level repeatable read");
  await client.query("select count(*) from queue_jobs");
  return client;
}
