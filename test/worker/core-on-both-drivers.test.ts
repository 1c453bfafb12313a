import { eq, sql } from "drizzle-orm";
import { createQueue, defineJob, defineJobs, FailJob, fixed, SnoozeJob } from "drizzle-queue";
import { queueJobs, queueProcessedKeys } from "drizzle-queue/schema";
import { createWorker, type Worker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy } from "../support/events.js";
import { waitUntil } from "../support/wait-until.js";
import { type AppDatabase, DRIVERS } from "./drivers.js";
import { createGate } from "./room.js";

const anything = z.object({ n: z.number() });
const jobs = defineJobs({
  plain: defineJob({ payload: anything, result: z.object({ doubled: z.number() }) }),
  keyed: defineJob({ payload: anything, idempotencyKey: ({ n }) => `key ${n}` }),
  flaky: defineJob({ payload: anything, backoff: fixed({ delayMs: 20 }), maxAttempts: 3 }),
  held: defineJob({ payload: anything, leaseMs: 600 }),
  slow: defineJob({ payload: anything, timeoutMs: 100, maxAttempts: 1, leaseMs: 1_000 }),
});

describe.each(DRIVERS)("on $driver, a worker", ({ open }) => {
  let database: TestDatabase;
  let app: AppDatabase;
  let worker: Worker | undefined;

  beforeAll(async () => {
    database = await createDatabase();
    app = open(database.url);
  });

  afterEach(async () => {
    await worker?.stop({ gracePeriodMs: 0 });
    worker = undefined;
    await database.pool.query("truncate queue_jobs, queue_processed_keys, queue_workers");
  });

  afterAll(async () => {
    await app.close();
    await database.drop();
  });

  test("runs a job once and stores what its handler returned", async () => {
    const spy = createEventSpy();
    const queue = createQueue({ jobs, instrumentation: spy.listener });
    worker = createWorker({
      queue,
      db: app.db,
      only: ["plain"],
      handlers: { plain: ({ payload }) => ({ doubled: payload.n * 2 }) },
    });
    await worker.start();
    const { id } = await app.db.transaction((tx) => queue.enqueue(tx, "plain", { n: 21 }));
    const done = await spy.next("job.done");
    expect(done).toMatchObject({ jobId: id, attempt: 1, leaseVersion: 1, by: "handler" });
    const [row] = await app.db.select().from(queueJobs).where(eq(queueJobs.id, id));
    expect(row).toMatchObject({ status: "done", outcome: "done", result: { doubled: 42 } });
    expect(spy.all("job.started")).toHaveLength(1);
  });

  test("commits effect, key and completion together", async () => {
    const spy = createEventSpy();
    const queue = createQueue({ jobs, instrumentation: spy.listener });
    worker = createWorker({
      queue,
      db: app.db,
      only: ["keyed", "plain"],
      handlers: {
        plain: ({ payload }) => ({ doubled: payload.n }),
        async keyed({ commit, payload }) {
          await commit(async (tx) => {
            await queue.enqueue(tx, "plain", { n: payload.n });
          });
        },
      },
    });
    await worker.start();
    const { id } = await app.db.transaction((tx) => queue.enqueue(tx, "keyed", { n: 7 }));
    await spy.next("job.done", (event) => event.jobName === "plain");
    const keys = await app.db.select().from(queueProcessedKeys);
    expect(keys).toMatchObject([{ name: "keyed", idempotencyKey: "key 7", jobId: id }]);
    expect(spy.all("job.done")).toHaveLength(2);
  });

  test("retries what throws, gives up on FailJob, waits for SnoozeJob", async () => {
    const spy = createEventSpy();
    const queue = createQueue({ jobs, instrumentation: spy.listener });
    worker = createWorker({
      queue,
      db: app.db,
      only: ["flaky"],
      handlers: {
        flaky({ payload, job }) {
          if (payload.n === 1 && job.attempt < 3) throw new Error("not yet");
          if (payload.n === 2) throw new FailJob("never");
          if (payload.n === 3 && spy.all("job.snoozed").length === 0) {
            throw new SnoozeJob({ delayMs: 20 });
          }
        },
      },
    });
    await worker.start();
    const retried = await queue.enqueueNow(app.db, "flaky", { n: 1 });
    const failed = await queue.enqueueNow(app.db, "flaky", { n: 2 });
    const snoozed = await queue.enqueueNow(app.db, "flaky", { n: 3 });
    await spy.next("job.done", (event) => event.jobId === retried.id && event.attempt === 3);
    await spy.next("job.failed", (event) => event.jobId === failed.id && event.attempt === 1);
    await spy.next("job.done", (event) => event.jobId === snoozed.id && event.attempt === 1);
    const rows = await app.db.select().from(queueJobs).orderBy(queueJobs.id);
    expect(rows.map(({ status, attempts }) => [status, attempts])).toEqual([
      ["done", 3],
      ["failed", 1],
      ["done", 1],
    ]);
    expect(rows[0]?.errorHistory?.map(({ attempt, message }) => [attempt, message])).toEqual([
      [1, "not yet"],
      [2, "not yet"],
    ]);
  });

  test("keeps the lease of a long handler, and aborts one that runs out of time", async () => {
    const spy = createEventSpy();
    const queue = createQueue({ jobs, instrumentation: spy.listener });
    const gate = createGate();
    worker = createWorker({
      queue,
      db: app.db,
      only: ["held", "slow"],
      handlers: {
        held: () => gate.opened,
        slow: ({ signal }) =>
          new Promise((_, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason as Error));
          }),
      },
    });
    await worker.start();
    const held = await queue.enqueueNow(app.db, "held", { n: 1 });
    await spy.next("job.started");
    const startedAt = performance.now();
    await queue.enqueueNow(app.db, "slow", { n: 2 });
    const failed = await spy.next("job.failed");
    expect(failed.error.code).toBe("ATTEMPT_TIMED_OUT");
    await waitUntil("two leases have passed", () => performance.now() - startedAt > 1_200);
    gate.open();
    expect(await spy.next("job.done")).toMatchObject({ jobId: held.id, leaseVersion: 1 });
    expect(spy.all("lease.lost")).toEqual([]);
  });

  /** Ends every session of the worker; tells when. */
  async function endSessions(): Promise<string> {
    const { rows } = await database.pool.query<{ now: string }>(
      "select clock_timestamp()::text as now",
    );
    await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name like 'drizzle-queue%'`,
    );
    return rows[0]?.now ?? "";
  }

  test("is woken by a commit though it polls once a minute, also after its sessions were ended", async () => {
    const spy = createEventSpy();
    const queue = createQueue({ jobs, instrumentation: spy.listener });
    worker = createWorker({
      queue,
      db: app.db,
      pollIntervalMs: 60_000,
      only: ["plain"],
      handlers: { plain: ({ payload }) => ({ doubled: payload.n }) },
    });
    await worker.start();
    let since = "epoch";
    for (let round = 1; round <= 3; round += 1) {
      await waitUntil("it asks to be woken", async () => {
        const asks = "select from queue_workers where waiting and seen_at > $1::text::timestamptz";
        return (await database.pool.query(asks, [since])).rowCount === 1;
      });
      const { id } = await app.db.transaction((tx) => queue.enqueue(tx, "plain", { n: round }));
      expect((await spy.next("job.done", undefined, 3_000)).jobId).toBe(id);
      since = await endSessions();
      for (let lost = 1; lost <= 2; lost += 1) await spy.next("connection.restored");
    }
  });

  test("opens three connections with a session of their own, and closes them at its stop", async () => {
    const spy = createEventSpy();
    const queue = createQueue({ jobs, instrumentation: spy.listener });
    const gate = createGate();
    worker = createWorker({
      queue,
      db: app.db,
      concurrency: 200,
      only: ["held"],
      handlers: { held: () => gate.opened },
    });
    const sessions = async () => {
      const { rows } = await database.pool.query<{ application_name: string }>(
        `select application_name from pg_stat_activity
           where datname = current_database() and application_name like 'drizzle-queue%' order by 1`,
      );
      return rows.map((row) => row.application_name);
    };
    await worker.start();
    const many = Array.from({ length: 300 }, (_, n) => ({ name: "held" as const, payload: { n } }));
    await app.db.transaction((tx) => queue.enqueueMany(tx, many));
    await spy.next("leases.renewed", ({ count }) => count === 200);
    await waitUntil("it listens", async () => (await sessions()).length >= 3);
    expect(await sessions()).toEqual([
      "drizzle-queue listen",
      "drizzle-queue main",
      "drizzle-queue renewal",
    ]);
    gate.open();
    await waitUntil("all jobs are done", async () => {
      const left = await app.db.$count(queueJobs, sql`finished_at is null`);
      return left === 0;
    });
    await worker.stop();
    await waitUntil("its sessions are gone", async () => (await sessions()).length === 0);
  });
});
