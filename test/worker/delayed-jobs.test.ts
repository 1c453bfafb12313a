import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker, type Worker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { openRoom, type Room } from "./room.js";

const jobs = defineJobs({ note: defineJob({ payload: z.object({}) }) });

let room: Room;
let worker: Worker | undefined;

beforeAll(async () => {
  room = await openRoom();
});
afterEach(async () => {
  await worker?.stop({ gracePeriodMs: 0 });
  await room.clear();
});
afterAll(() => room.close());

/** By the database's clock: how long after they were due the jobs were claimed, in milliseconds. */
async function lateness(): Promise<readonly number[]> {
  const rows = await room.rows<{ late: number }>(
    `select (extract(epoch from started_at - available_at) * 1000)::float8 as late
       from queue_jobs where status = 'done' order by 1`,
  );
  return rows.map(({ late }) => late);
}

test("an idle worker starts delayed jobs at their time, though it polls once a minute", async () => {
  const { spy } = room;
  const queue = createQueue({ jobs, instrumentation: spy.listener });
  worker = createWorker({
    queue,
    db: room.db,
    pollIntervalMs: 60_000,
    handlers: { note: () => undefined },
  });
  await worker.start();
  await waitUntil(
    "it asks to be woken",
    async () => (await room.rows("select from queue_workers where waiting")).length === 1,
  );
  const delays = Array.from({ length: 21 }, (_, n) => 1_500 + n * 97);
  for (const delayMs of delays) await queue.enqueueNow(room.db, "note", {}, { delayMs });
  await waitUntil("all are done", () => spy.all("job.done").length === delays.length);
  const late = await lateness();
  expect(late).toHaveLength(delays.length);
  expect(Math.min(...late)).toBeGreaterThanOrEqual(0);
  // The promise is of an idle worker on a machine with time for it: half of them tell, the slowest
  // measure what else this machine was doing.
  expect(late[10]).toBeLessThanOrEqual(50);
});

test("a worker that starts later takes what became due meanwhile, and sleeps until the next", async () => {
  const { spy } = room;
  const queue = createQueue({ jobs, instrumentation: spy.listener });
  const due = await queue.enqueueNow(room.db, "note", {}, { runAt: new Date(Date.now() - 60_000) });
  const next = await queue.enqueueNow(room.db, "note", {}, { delayMs: 2_000 });
  await queue.enqueueNow(room.db, "note", {}, { delayMs: 2_147_483_647 });
  worker = createWorker({
    queue,
    db: room.db,
    pollIntervalMs: 3_600_000,
    handlers: { note: () => undefined },
  });
  await worker.start();
  expect((await spy.next("job.started", undefined, 2_000)).jobId).toBe(due.id);
  expect((await spy.next("job.started", undefined, 4_000)).jobId).toBe(next.id);
  expect(spy.all("job.claimed")).toHaveLength(2);
});
