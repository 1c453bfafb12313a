import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs, fixed, isAttemptError } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { createGate, openRoom, type Room } from "./room.js";

const payload = z.object({});
const queue = createQueue({
  jobs: defineJobs({
    slow: defineJob({
      payload,
      leaseMs: 2_000,
      timeoutMs: 150,
      maxAttempts: 3,
      backoff: fixed({ delayMs: 400, jitter: 0 }),
    }),
    normal: defineJob({ payload }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
  await room.rows("create table effects (job_id bigint, attempt int)");
});
afterEach(async () => {
  await room.clear();
  await room.rows("truncate effects");
});
afterAll(() => room.close());

const never = new Promise<void>(() => {});
const common = () => ({
  queue,
  db: room.db,
  pollIntervalMs: 50,
  instrumentation: room.spy.listener,
});

test("a timeout aborts the handler's signal and the job is tried again", async () => {
  await using worker = createWorker({
    ...common(),
    handlers: {
      normal: () => {},
      slow: async ({ job, signal }) => {
        if (job.attempt > 1) return;
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        throw signal.reason;
      },
    },
  });
  await worker.start();
  const { id } = await queue.enqueueNow(room.db, "slow", {});

  await room.spy.next("job.done");

  const job = await room.job(id);
  expect(job).toMatchObject({ status: "done", attempts: 2 });
  expect(job?.errors).toMatchObject([
    { attempt: 1, code: "ATTEMPT_TIMED_OUT", name: "AttemptError" },
  ]);
});

test("a handler that asks for its signal only after the timeout finds it aborted", async () => {
  const gate = createGate();
  const reasons: unknown[] = [];
  await using worker = createWorker({
    ...common(),
    handlers: {
      normal: () => {},
      slow: async (context) => {
        if (context.job.attempt > 1) return;
        await gate.opened;
        reasons.push(context.signal.reason);
      },
    },
  });
  await worker.start();
  await queue.enqueueNow(room.db, "slow", {});
  await room.spy.next("attempt.errored");
  gate.open();
  await room.spy.next("job.done");
  expect(reasons.map((reason) => isAttemptError(reason, "ATTEMPT_TIMED_OUT"))).toEqual([true]);
});

test("a commit after the timeout is refused, and the retry does not come before the backoff", async () => {
  const gate = createGate();
  const refusals: unknown[] = [];
  await using worker = createWorker({
    ...common(),
    handlers: {
      normal: () => {},
      slow: async ({ job, commit }) => {
        if (job.attempt === 1) await gate.opened;
        await commit(async (tx) => {
          await tx.execute(sql`insert into effects values (${job.id}, ${job.attempt})`);
        }).catch((error: unknown) => refusals.push(error));
      },
    },
  });
  await worker.start();
  const { id } = await queue.enqueueNow(room.db, "slow", {});
  await room.spy.next("attempt.errored");
  const waiting = await room.job(id);
  gate.open();
  await room.spy.next("job.done");

  expect(refusals).toHaveLength(1);
  expect(isAttemptError(refusals[0], "ATTEMPT_TIMED_OUT")).toBe(true);
  expect(waiting).toMatchObject({ status: "queued", attempts: 1 });
  expect(await room.rows("select job_id::int, attempt from effects")).toEqual([
    { job_id: id, attempt: 2 },
  ]);
  const job = await room.job(id);
  expect(job).toMatchObject({ status: "done", attempts: 2 });
  expect(job?.startedMs).toBeGreaterThanOrEqual(Date.parse(job?.errors[0]?.at ?? "") + 400);
});

test("handlers that never settle give their slots to others, and stop still returns", async () => {
  await using worker = createWorker({
    ...common(),
    concurrency: 2,
    handlers: { normal: () => {}, slow: () => never },
  });
  await worker.start();
  const stuckIds = [];
  for (let n = 0; n < 2; n += 1) {
    stuckIds.push((await queue.enqueueNow(room.db, "slow", {}, { maxAttempts: 1 })).id);
  }
  await room.spy.next("job.failed");
  await room.spy.next("job.failed");
  await room.db.transaction((tx) =>
    queue.enqueueMany(
      tx,
      Array.from({ length: 30 }, () => ({ name: "normal" as const, payload: {} })),
    ),
  );

  await waitUntil("all normal jobs are done", () => room.spy.all("job.done").length === 30);

  expect((await room.spy.next("handler.stuck")).stuck).toBe(1);
  expect((await room.spy.next("handler.stuck")).stuck).toBe(2);
  const report = await worker.stop({ gracePeriodMs: 50 });
  expect([...report.abandoned].sort((a, b) => a - b)).toEqual(stuckIds);
  expect(
    await room.rows("select status, count(*)::int from queue_jobs group by 1 order by 1"),
  ).toEqual([
    { status: "done", count: 30 },
    { status: "failed", count: 2 },
  ]);
});

test("a commit whose effect does not end does not keep its job from being tried again", async () => {
  const gate = createGate();
  await using worker = createWorker({
    ...common(),
    handlers: {
      normal: () => {},
      slow: async ({ job, commit }) => {
        await commit(async (tx) => {
          await tx.execute(sql`insert into effects values (${job.id}, ${job.attempt})`);
          if (job.attempt === 1) await gate.opened;
        });
      },
    },
  });
  await worker.start();
  const { id } = await queue.enqueueNow(room.db, "slow", {});

  await room.spy.next("job.done", () => true, 15_000);

  expect(await room.job(id)).toMatchObject({ status: "done", attempts: 2 });
  expect(await room.rows("select attempt from effects")).toEqual([{ attempt: 2 }]);
  // The first one comes too late now, and is told so.
  gate.open();
  expect(await worker.stop()).toEqual({ released: 0, abandoned: [] });
  expect(await room.rows("select attempt from effects")).toEqual([{ attempt: 2 }]);
});

test("a commit that waited for the app's pool beyond the timeout writes nothing", async () => {
  const pool = new pg.Pool({ connectionString: room.url, max: 1 });
  const held = await pool.connect();
  let effects = 0;
  await using worker = createWorker({
    ...common(),
    db: drizzle(pool),
    handlers: {
      normal: () => {},
      slow: async ({ commit, signal }) => {
        const committing = commit(async () => {
          effects += 1;
        });
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        held.release();
        await committing;
      },
    },
  });
  await worker.start();
  const { id } = await queue.enqueueNow(room.db, "slow", {}, { maxAttempts: 1 });

  await room.spy.next("job.failed");

  expect(effects).toBe(0);
  expect(await room.job(id)).toMatchObject({ status: "failed", attempts: 1 });
  await worker.stop();
  await pool.end();
});
