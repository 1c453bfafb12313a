import {
  createQueue,
  defineJob,
  defineJobs,
  exponential,
  FailJob,
  fixed,
  SnoozeJob,
} from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { forEveryJob, openRoom, type Room } from "./room.js";

const payload = z.object({});
const queue = createQueue({
  jobs: defineJobs({
    quick: defineJob({ payload, maxAttempts: 3, backoff: fixed({ delayMs: 40, jitter: 0 }) }),
    growing: defineJob({
      payload,
      backoff: exponential({ baseMs: 60_000, maxMs: 3_600_000, jitter: 0 }),
    }),
    standard: defineJob({ payload }),
    long: defineJob({ payload, maxAttempts: 12, backoff: fixed({ delayMs: 0 }) }),
    picky: defineJob({
      payload,
      maxAttempts: 7,
      retryIf: (error, { attempt, maxAttempts }) =>
        error instanceof RangeError && attempt === 1 && maxAttempts === 7,
    }),
    undecided: defineJob({
      payload,
      retryIf: () => {
        throw new Error("no decision");
      },
    }),
    broken: defineJob({ payload, backoff: () => Number.NaN }),
  }),
});

interface Context {
  readonly job: { readonly attempt: number; readonly isLastAttempt: boolean };
}

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const createTestWorker = (handler: (context: Context) => void) =>
  createWorker({
    queue,
    db: room.db,
    handlers: forEveryJob(queue, handler),
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
  });

describe("an attempt that errors", () => {
  test("is followed by another after the job's own backoff", async () => {
    await using worker = createTestWorker(({ job }) => {
      if (job.attempt === 1) throw new Error("not yet");
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "quick", {});

    await room.spy.next("job.done");

    const job = await room.job(id);
    expect(job).toMatchObject({ status: "done", attempts: 2, leaseVersion: 2 });
    expect(job?.errors).toMatchObject([{ attempt: 1, name: "Error", message: "not yet" }]);
    // Both instants are the server's, in whole milliseconds at least.
    expect(job?.startedMs).toBeGreaterThanOrEqual(Date.parse(job?.errors[0]?.at ?? "") + 40);
  });

  test("waits longer each time when the backoff grows", async () => {
    await using worker = createTestWorker(() => {
      throw new Error("no");
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "growing", {});
    const delays: number[] = [];
    for (const attempt of [1, 2, 3]) {
      await room.spy.next("attempt.errored", (event) => event.attempt === attempt);
      const job = await room.job(id);
      delays.push(((job?.availableMs ?? 0) - Date.parse(job?.errors.at(-1)?.at ?? "")) / 60_000);
      await room.rows("update queue_jobs set available_at = now() where id = $1", [id]);
    }
    expect(delays.map((delay) => Math.round(delay * 100) / 100)).toEqual([1, 2, 4]);
  });

  test("waits for some seconds when no backoff was set", async () => {
    await using worker = createTestWorker(() => {
      throw new Error("no");
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "standard", {});
    await room.spy.next("attempt.errored");
    const job = await room.job(id);
    const delayMs = (job?.availableMs ?? 0) - Date.parse(job?.errors[0]?.at ?? "");
    expect(delayMs).toBeGreaterThanOrEqual(3_749);
    expect(delayMs).toBeLessThanOrEqual(5_001);
  });

  test("falls back to the default delay when the backoff gives no number", async () => {
    await using worker = createTestWorker(() => {
      throw new Error("no");
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "broken", {});
    const { retryInMs } = await room.spy.next("attempt.errored");
    expect(retryInMs).toBeGreaterThanOrEqual(3_750);
    expect(await room.job(id)).toMatchObject({ status: "queued", attempts: 1 });
  });
});

describe("the number of attempts", () => {
  test("is bounded: after the last one the job is failed, with the error of each", async () => {
    const seen: boolean[] = [];
    await using worker = createTestWorker(({ job }) => {
      seen.push(job.isLastAttempt);
      throw new Error(`attempt ${job.attempt}`);
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "quick", {});

    await room.spy.next("job.failed");

    expect(seen).toEqual([false, false, true]);
    const job = await room.job(id);
    expect(job).toMatchObject({
      status: "failed",
      outcome: "failed",
      attempts: 3,
      lastError: "Error: attempt 3",
    });
    expect(job?.errors.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(room.spy.all("attempt.errored")).toHaveLength(2);
  });

  test("does not make the history grow beyond the last ten errors", async () => {
    await using worker = createTestWorker(({ job }) => {
      throw new Error(`attempt ${job.attempt}`);
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "long", {});
    await room.spy.next("job.failed");
    const job = await room.job(id);
    expect(job?.errors.map(({ attempt }) => attempt)).toEqual([3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  });

  test("can be set for one job when it is enqueued", async () => {
    await using worker = createTestWorker(() => {
      throw new Error("no");
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "quick", {}, { maxAttempts: 1 });
    await room.spy.next("job.failed");
    expect(await room.job(id)).toMatchObject({ status: "failed", attempts: 1 });
  });
});

describe("retryIf", () => {
  test("says which errors are worth another attempt", async () => {
    await using worker = createTestWorker(({ job }) => {
      throw job.attempt === 1 ? new RangeError("try again") : new TypeError("hopeless");
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "picky", {});
    await room.spy.next("attempt.errored");
    expect(await room.job(id)).toMatchObject({ status: "queued", attempts: 1 });
    await room.rows("update queue_jobs set available_at = now() where id = $1", [id]);
    await room.spy.next("job.failed");
    expect(await room.job(id)).toMatchObject({ status: "failed", attempts: 2 });
  });

  test("that throws leaves the job to be tried again", async () => {
    await using worker = createTestWorker(() => {
      throw new Error("no");
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "undecided", {});
    await room.spy.next("attempt.errored");
    const job = await room.job(id);
    expect(job).toMatchObject({ status: "queued", attempts: 1 });
    expect(job?.errors).toMatchObject([{ message: "no" }]);
  });
});

describe("a verdict", () => {
  test("FailJob fails the job at once, whatever attempts are left", async () => {
    await using worker = createTestWorker(() => {
      throw new FailJob("the account was closed", { cause: new Error("410") });
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "quick", {});
    await room.spy.next("job.failed");
    expect(await room.job(id)).toMatchObject({
      status: "failed",
      attempts: 1,
      lastError: "FailJob: the account was closed",
    });
  });

  test("SnoozeJob runs the job again later and uses up no attempt", async () => {
    let starts = 0;
    await using worker = createTestWorker(({ job }) => {
      starts += 1;
      expect(job.attempt).toBe(1);
      if (starts <= 5) throw new SnoozeJob({ delayMs: 1 });
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "quick", {});
    await room.spy.next("job.done");
    expect(starts).toBe(6);
    expect(room.spy.all("job.snoozed")).toHaveLength(5);
    expect(await room.job(id)).toMatchObject({
      status: "done",
      attempts: 1,
      leaseVersion: 6,
      errors: [],
    });
  });

  test("a retry starts on time however long the pause between polls is", async () => {
    await using worker = createWorker({
      queue,
      db: room.db,
      handlers: forEveryJob(queue, ({ job }: Context) => {
        if (job.attempt === 1) throw new Error("once");
      }),
      pollIntervalMs: 3_600_000,
      // Without LISTEN nothing else makes the worker look.
      throughPooler: true,
      instrumentation: room.spy.listener,
    });
    const { id } = await queue.enqueueNow(room.db, "quick", {});
    await worker.start();
    await room.spy.next("attempt.errored");
    await room.spy.next("job.done");
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: 2 });
  });

  test("SnoozeJob makes the job due after its delay", async () => {
    await using worker = createTestWorker(() => {
      throw new SnoozeJob({ delayMs: 90_000 });
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "quick", {});
    await room.spy.next("job.snoozed");
    const job = await room.job(id);
    expect(job).toMatchObject({ status: "queued", attempts: 0, lockedBy: null });
    expect((job?.availableMs ?? 0) - (job?.startedMs ?? 0)).toBeGreaterThanOrEqual(90_000);
  });
});
