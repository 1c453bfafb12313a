import { asc, eq, sql } from "drizzle-orm";
import { createQueue, defineJob, defineJobs, FailJob, fixed, SnoozeJob } from "drizzle-queue";
import { queueJobs } from "drizzle-queue/schema";
import { drainJobs } from "drizzle-queue/testing";
import { defineHandlers } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { createEventSpy } from "../support/events.js";
import { createGate, openRoom, type Room } from "../worker/room.js";

const payload = z.object({
  does: z
    .enum(["nothing", "chain", "error", "flaky", "fail", "snooze", "repeat"])
    .default("nothing"),
  n: z.number().default(0),
});
const spy = createEventSpy();
const queue = createQueue({
  jobs: defineJobs({
    work: defineJob({ payload, backoff: fixed({ delayMs: 60_000 }), maxAttempts: 3 }),
    other: defineJob({ payload, queue: "others" }),
  }),
  instrumentation: spy.listener,
});

let room: Room;
let ran: string[] = [];
beforeAll(async () => {
  room = await openRoom();
});
afterEach(async () => {
  ran = [];
  await room.clear();
});
afterAll(() => room.close());

const handlers = defineHandlers(queue, {
  async work({ payload: { does, n }, job, commit }) {
    ran.push(`work ${n}`);
    switch (does) {
      case "nothing":
        return;
      case "chain":
        return commit(async (tx) => {
          if (n > 0) await queue.enqueue(tx, "work", { does, n: n - 1 });
          else await queue.enqueue(tx, "other", {});
        });
      case "error":
        throw new Error(`attempt ${job.attempt}`);
      case "flaky":
        if (!job.isLastAttempt) throw new Error(`attempt ${job.attempt}`);
        return;
      case "fail":
        throw new FailJob("never");
      case "snooze":
        throw new SnoozeJob({ delayMs: 60_000 });
      case "repeat":
        return commit((tx) => queue.enqueue(tx, "work", { does }, { delayMs: 60_000 }));
    }
  },
  other: ({ payload: { n } }) => void ran.push(`other ${n}`),
});

type Work = z.input<typeof payload>;
const enqueue = (of: Work = {}, options = {}) => queue.enqueueNow(room.db, "work", of, options);
const drain = (more: object = {}) => drainJobs({ queue, db: room.db, handlers, ...more });
const NOTHING = {
  done: [],
  failed: [],
  retrying: [],
  snoozed: [],
  cancelled: [],
  lost: [],
  errors: [],
};

describe("what is due", () => {
  test("is run, with what that enqueues, until nothing is left", async () => {
    const { id } = await enqueue({ does: "chain", n: 3 });
    const report = await drain();
    expect(ran).toEqual(["work 3", "work 2", "work 1", "work 0", "other 0"]);
    expect(report.done).toHaveLength(5);
    expect(report.done[0]).toEqual({ id, name: "work", queue: "default", attempt: 1 });
    expect({ ...report, done: [] }).toEqual(NOTHING);
  });

  test("is nothing at all in an empty queue", async () => {
    expect(await drain()).toEqual(NOTHING);
  });

  test("is run one after the other, by priority, then first in, first out", async () => {
    await enqueue({ n: 1 });
    await enqueue({ n: 2 });
    await enqueue({ n: 3 }, { priority: 0 });
    await drain();
    expect(ran).toEqual(["work 3", "work 1", "work 2"]);
  });

  test("is run side by side when told so", async () => {
    const both = createGate();
    for (const n of [1, 2]) await enqueue({ n });
    const report = await drain({
      concurrency: 2,
      only: ["work"],
      handlers: {
        work: async ({ payload: { n } }: { payload: { n: number } }) => {
          if (n === 2) both.open();
          await both.opened;
        },
      },
    });
    expect(report.done).toHaveLength(2);
  });

  test("may be hundreds of jobs", async () => {
    const items = Array.from({ length: 500 }, (_, n) => ({
      name: "work" as const,
      payload: { n },
    }));
    await room.db.transaction((tx) => queue.enqueueMany(tx, items));
    const report = await drain();
    expect(report.done).toHaveLength(500);
    expect(ran).toEqual(items.map(({ payload: { n } }) => `work ${n}`));
  });

  test("includes what a lost worker held, once its lease has run out", async () => {
    const { id } = await enqueue();
    await room.rows(
      "update queue_jobs set status = 'running', attempts = 1, lease_version = 1, locked_by = 'dead', lease_until = now() - interval '1 second'",
    );
    expect((await drain()).done).toEqual([{ id, name: "work", queue: "default", attempt: 2 }]);
  });

  test("includes what a handler enqueues after its commit", async () => {
    await enqueue();
    const report = await drain({
      handlers: {
        ...handlers,
        work: async ({ commit }: { commit: (effect: () => void) => Promise<void> }) => {
          await commit(() => undefined);
          // The job is done by now, for everybody who asks the database.
          for (let n = 0; n < 3; n += 1) await room.rows("select pg_sleep(0.02)");
          await queue.enqueueNow(room.db, "other", { n: 1 });
        },
      },
    });
    expect(report.done.map(({ name }) => name)).toEqual(["work", "other"]);
    expect(ran).toEqual(["other 1"]);
  });
});

describe("how jobs ended", () => {
  test("is told by kind, with errors", async () => {
    const errored = await enqueue({ does: "error" });
    const failed = await enqueue({ does: "fail" });
    const snoozed = await enqueue({ does: "snooze" });
    const report = await drain();
    const of = { name: "work", queue: "default", attempt: 1 };
    expect(report).toMatchObject({
      done: [],
      failed: [{ ...of, id: failed.id, error: { name: "FailJob", message: "never" } }],
      retrying: [{ ...of, id: errored.id, error: { message: "attempt 1" } }],
      snoozed: [{ ...of, id: snoozed.id, delayMs: 60_000 }],
      cancelled: [],
      errors: [{ id: errored.id }, { id: failed.id }],
    });
    expect(report.retrying[0]?.retryInMs).toBeGreaterThan(40_000);
    const rows = await room.db.select().from(queueJobs).orderBy(asc(queueJobs.id));
    expect(rows.map(({ status }) => status)).toEqual(["queued", "failed", "queued"]);
  });

  test("counts a job whose end was asked for while it ran as cancelled", async () => {
    const { id } = await enqueue();
    const report = await drain({
      only: ["work"],
      handlers: {
        work: async () => {
          await room.rows("update queue_jobs set cancel_requested_at = now() where id = $1", [id]);
          throw new Error("too late");
        },
      },
    });
    expect(report).toMatchObject({ ...NOTHING, cancelled: [{ id }] });
  });

  test("has what a handler throws after its commit among the errors", async () => {
    const { id } = await enqueue();
    const report = await drain({
      only: ["work"],
      handlers: {
        work: async ({ commit }: { commit: (effect: () => void) => Promise<void> }) => {
          await commit(() => undefined);
          throw new Error("after all");
        },
      },
    });
    expect(report).toMatchObject({
      done: [{ id }],
      errors: [{ id, error: { message: "after all" } }],
    });
  });

  test("is told to the queue's instrumentation too, whatever that does", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const rejecting = { event: () => Promise.reject(new Error("no log today")) };
    await enqueue();
    const rude = createQueue({ jobs: queue.jobs, instrumentation: rejecting });
    expect((await drainJobs({ queue: rude, db: room.db, handlers })).done).toHaveLength(1);
    expect(warn).toHaveBeenCalledOnce();
    warn.mockRestore();

    const { id } = await enqueue();
    await drain();
    expect(await spy.next("job.done", ({ jobId }) => jobId === id)).toMatchObject({ attempt: 1 });
  });
});

describe("what is not due", () => {
  test("is left alone: later jobs, other names, other queues, and what other workers hold", async () => {
    await enqueue({ n: 1 }, { delayMs: 60_000 });
    await enqueue({ n: 2 }, { queue: "elsewhere" });
    await queue.enqueueNow(room.db, "other", { n: 3 });
    await enqueue({ n: 4 });
    await room.rows(
      `update queue_jobs set status = 'running', attempts = 1, lease_version = 1, locked_by = 'alive',
         lease_until = now() + interval '1 minute'
       where payload->>'n' = '4'`,
    );
    expect(await drain({ only: ["work"] })).toEqual(NOTHING);
    expect(ran).toEqual([]);
  });

  test("of another queue is run when that queue is named", async () => {
    await enqueue({ n: 2 }, { queue: "elsewhere" });
    expect((await drain({ queues: ["elsewhere"] })).done).toMatchObject([{ queue: "elsewhere" }]);
  });
});

describe("with runsScheduled", () => {
  test("what waits for its time is run now, in the order of those times", async () => {
    await enqueue({ n: 1 }, { delayMs: 3_000_000 });
    await enqueue({ n: 2 }, { delayMs: 60_000 });
    await enqueue({ n: 3 }, { delayMs: 60_000_000 });
    expect((await drain({ runsScheduled: true })).done).toHaveLength(3);
    expect(ran).toEqual(["work 2", "work 1", "work 3"]);
  });

  test("jobs that error are tried again until they are done or failed", async () => {
    const flaky = await enqueue({ does: "flaky", n: 1 });
    const error = await enqueue({ does: "error", n: 2 });
    const report = await drain({ runsScheduled: true });
    expect(report).toMatchObject({
      done: [{ id: flaky.id, attempt: 3 }],
      failed: [{ id: error.id, attempt: 3, error: { message: "attempt 3" } }],
      retrying: [],
    });
    expect(report.errors.map(({ error: { message } }) => message)).toEqual([
      "attempt 1",
      "attempt 1",
      "attempt 2",
      "attempt 2",
      "attempt 3",
    ]);
  });

  test("one call goes one step: what is put off meanwhile waits for the next", async () => {
    await enqueue({ does: "snooze", n: 1 });
    await enqueue({ does: "repeat", n: 2 });
    const first = await drain({ runsScheduled: true });
    expect(first).toMatchObject({ snoozed: [{ attempt: 1 }], done: [{ attempt: 1 }] });
    expect(ran).toEqual(["work 1", "work 2"]);
    expect(await drain()).toEqual(NOTHING);
    expect(await drain({ runsScheduled: true })).toMatchObject({ snoozed: [{}], done: [{}] });
  });

  test("jobs of other names and queues, and those put off for good, wait on", async () => {
    await queue.enqueueNow(room.db, "other", {}, { delayMs: 60_000 });
    await enqueue({}, { delayMs: 60_000, queue: "elsewhere" });
    await enqueue({ n: 5 });
    await room.db
      .update(queueJobs)
      .set({ availableAt: sql`'infinity'` })
      .where(eq(queueJobs.queue, "default"));
    expect(await drain({ runsScheduled: true, only: ["work"] })).toEqual(NOTHING);
  });
});
