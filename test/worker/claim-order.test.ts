import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker, type Worker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { openRoom, type Room } from "./room.js";

const jobs = defineJobs({ note: defineJob({ payload: z.object({ n: z.number() }) }) });

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

test("jobs start by priority, and among equals in the order of their enqueue", async () => {
  const { spy } = room;
  const queue = createQueue({ jobs, instrumentation: spy.listener });
  const priorities = [9, 0, 5, 3, 5, 0, 9, 1, 5, 0];
  await room.db.transaction((tx) =>
    queue.enqueueMany(
      tx,
      priorities.map((priority, n) => ({
        name: "note" as const,
        payload: { n },
        options: { priority },
      })),
    ),
  );
  const started: number[] = [];
  worker = createWorker({
    queue,
    db: room.db,
    concurrency: 1,
    handlers: { note: ({ payload: { n } }) => void started.push(n) },
  });
  await worker.start();
  await waitUntil("all have started", () => started.length === priorities.length);
  expect(started).toEqual([1, 5, 9, 7, 3, 2, 4, 8, 0, 6]);
});

test("queues of equal priority share the slots, however long one of them is", async () => {
  const { spy } = room;
  const queue = createQueue({ jobs, instrumentation: spy.listener });
  const fill = (name: string, count: number) =>
    room.db.transaction((tx) =>
      queue.enqueueMany(
        tx,
        Array.from({ length: count }, (_, n) => ({
          name: "note" as const,
          payload: { n },
          options: { queue: name },
        })),
      ),
    );
  await fill("long", 2_000);
  await fill("short", 60);
  await fill("other", 60);
  const started: string[] = [];
  worker = createWorker({
    queue,
    db: room.db,
    queues: ["long", "short", "other"],
    concurrency: 10,
    handlers: {
      async note({ job }) {
        started.push(job.queue);
        await new Promise((resolve) => setTimeout(resolve, 5));
      },
    },
  });
  await worker.start();
  await waitUntil(
    "both short ones are through",
    () => started.filter((name) => name !== "long").length === 120,
  );
  // A third of the slots each would be 180; behind the long queue it would be 2,120.
  expect(started.length).toBeLessThan(700);
});

test("what is urgent and comes later starts before what waits already", async () => {
  const { spy } = room;
  const queue = createQueue({ jobs, instrumentation: spy.listener });
  const started: number[] = [];
  const many = Array.from({ length: 500 }, (_, n) => ({ name: "note" as const, payload: { n } }));
  await room.db.transaction((tx) => queue.enqueueMany(tx, many));
  worker = createWorker({
    queue,
    db: room.db,
    concurrency: 5,
    handlers: {
      async note({ payload: { n } }) {
        started.push(n);
        if (started.length === 50) {
          await queue.enqueueNow(room.db, "note", { n: -1 }, { priority: 0 });
        }
        await new Promise((resolve) => setTimeout(resolve, 10));
      },
    },
  });
  await worker.start();
  await waitUntil("the urgent one has started", () => started.includes(-1));
  expect(started.length).toBeLessThan(250);
});
