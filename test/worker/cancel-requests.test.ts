import {
  createQueue,
  defineJob,
  defineJobs,
  fixed,
  isAttemptError,
  SnoozeJob,
} from "drizzle-queue";
import { createWorker, type HandlerFor } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createGate, openRoom, type Room } from "./room.js";

const payload = z.object({});
const backoff = fixed({ delayMs: 0 });
const queue = createQueue({
  jobs: defineJobs({
    /** Renewed every 300 ms or so: a request to cancel is noticed soon. */
    watched: defineJob({ payload, leaseMs: 900, backoff }),
    /** Ends before its first renewal is due. */
    brief: defineJob({ payload, leaseMs: 600_000, backoff }),
    last: defineJob({ payload, leaseMs: 600_000, maxAttempts: 1 }),
  }),
});
type Handlers = { [N in "watched" | "brief" | "last"]?: HandlerFor<typeof queue, N, Room["db"]> };

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const workerWith = (handlers: Handlers, throughPooler = false) =>
  createWorker({
    queue,
    db: room.db,
    throughPooler,
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
    handlers: { watched: () => {}, brief: () => {}, last: () => {}, ...handlers },
  });

/** As somebody does it who has no part in the worker: another process, or by hand. */
const requestCancel = (id: number) =>
  room.rows("update queue_jobs set cancel_requested_at = now() where id = $1", [id]);

describe("a request to cancel a running job", () => {
  test.each([
    ["with LISTEN", false],
    ["without LISTEN", true],
  ])("aborts its handler, and the job is cancelled and not tried again, %s", async (_, pooled) => {
    const reasons: unknown[] = [];
    await using worker = workerWith(
      {
        watched: async ({ signal }) => {
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          reasons.push(signal.reason);
          throw new Error("what an aborted request throws");
        },
      },
      pooled,
    );
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "watched", {});
    await room.spy.next("job.started");
    await requestCancel(id);
    expect(await room.spy.next("job.cancelled")).toMatchObject({ jobId: id, attempt: 1 });
    expect(reasons.map((reason) => isAttemptError(reason, "JOB_CANCELLED"))).toEqual([true]);
    expect(await room.job(id)).toMatchObject({
      status: "cancelled",
      outcome: "cancelled",
      attempts: 1,
    });
    expect(room.spy.all("attempt.errored")).toEqual([]);
  });

  test("that loses to its completion leaves it done, as the event says", async () => {
    const gate = createGate();
    await using worker = workerWith({ brief: () => gate.opened });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "brief", {});
    await room.spy.next("job.started");
    await requestCancel(id);
    gate.open();
    await room.spy.next("job.done");
    expect(await room.job(id)).toMatchObject({ status: "done", outcome: "done", attempts: 1 });
    expect(room.spy.all("job.cancelled")).toEqual([]);
  });

  test.each([
    ["its attempt errors", () => Promise.reject(new Error("no luck"))],
    ["it is snoozed", () => Promise.reject(new SnoozeJob({ delayMs: 0 }))],
  ])("that is not noticed before %s keeps it from being run again", async (_, end) => {
    const gate = createGate();
    let runs = 0;
    await using worker = workerWith({
      brief: async () => {
        runs += 1;
        await gate.opened;
        await end();
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "brief", {});
    await room.spy.next("job.started");
    await requestCancel(id);
    gate.open();
    expect(await room.spy.next("job.cancelled")).toMatchObject({ jobId: id, attempt: 1 });
    expect(await room.job(id)).toMatchObject({ status: "cancelled", outcome: "cancelled" });
    expect(runs).toBe(1);
  });

  test("that is not noticed before its last attempt errors leaves it cancelled, with that error on record", async () => {
    const gate = createGate();
    await using worker = workerWith({
      last: async () => {
        await gate.opened;
        throw new Error("no luck");
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "last", {});
    await room.spy.next("job.started");
    await requestCancel(id);
    gate.open();
    expect(await room.spy.next("job.cancelled")).toMatchObject({
      jobId: id,
      attempt: 1,
      error: { message: "no luck" },
    });
    const job = await room.job(id);
    expect(job).toMatchObject({ status: "cancelled", outcome: "cancelled" });
    expect(job?.errors).toMatchObject([{ attempt: 1, message: "no luck" }]);
    expect(room.spy.all("job.failed")).toEqual([]);
  });

  test("that is not noticed before its worker stops is carried out with its release", async () => {
    const worker = workerWith({
      brief: ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error));
        }),
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "brief", {});
    await room.spy.next("job.started");
    await requestCancel(id);
    await worker.stop({ gracePeriodMs: 0 });
    expect(await room.job(id)).toMatchObject({ status: "cancelled", outcome: "cancelled" });
    expect(room.spy.all("job.cancelled")).toHaveLength(1);
    expect(room.spy.all("job.released")).toEqual([]);
  });
});
