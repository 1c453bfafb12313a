import { createQueue, defineJob, defineJobs, fixed, type QueueEvent } from "drizzle-queue";
import { createWorker, logEvents } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { openRoom, type Room } from "./room.js";

const jobs = defineJobs({
  mixed: defineJob({
    payload: z.object({ errors: z.boolean() }),
    maxAttempts: 2,
    backoff: fixed({ delayMs: 0 }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

/** Runs ten jobs, half of which fail, under a listener that misbehaves; gives what was warned of. */
async function runUnder(event: (event: QueueEvent) => unknown): Promise<unknown[][]> {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  try {
    const queue = createQueue({ jobs, instrumentation: { event } });
    await using worker = createWorker({
      queue,
      db: room.db,
      pollIntervalMs: 50,
      handlers: {
        mixed: ({ payload }) => {
          if (payload.errors) throw new Error("no");
        },
      },
    });
    await worker.start();
    for (let n = 0; n < 10; n += 1)
      await queue.enqueueNow(room.db, "mixed", { errors: n % 2 === 0 });
    await waitUntil("all jobs have ended", async () => {
      const rows = await room.rows("select from queue_jobs where finished_at is null");
      return rows.length === 0;
    });
    return warn.mock.calls;
  } finally {
    warn.mockRestore();
  }
}

const outcomes = () =>
  room.rows("select status, attempts, count(*)::int from queue_jobs group by 1, 2 order by 1");
const expected = [
  { status: "done", attempts: 1, count: 5 },
  { status: "failed", attempts: 2, count: 5 },
];

test("a listener that throws at every event changes no outcome and is warned of once", async () => {
  const warnings = await runUnder(() => {
    throw new Error("listener");
  });
  expect(await outcomes()).toEqual(expected);
  // Once for the queue's events and once for the worker's.
  expect(warnings).toHaveLength(2);
});

test("a listener whose promises reject changes no outcome and is warned of once", async () => {
  const warnings = await runUnder(async () => {
    throw new Error("listener");
  });
  expect(await outcomes()).toEqual(expected);
  expect(warnings).toHaveLength(2);
});

test("a listener that never settles holds nothing up", async () => {
  const warnings = await runUnder(() => new Promise<void>(() => {}));
  expect(await outcomes()).toEqual(expected);
  expect(warnings).toEqual([]);
});

test("a logger that throws changes no outcome", async () => {
  const refuse = () => {
    throw new Error("EPIPE");
  };
  await runUnder(logEvents({ debug: refuse, info: refuse, warn: refuse, error: refuse }).event);
  expect(await outcomes()).toEqual(expected);
});
