import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { jsonTree } from "../support/json-tree.js";
import { openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({ echo: defineJob({ payload: z.unknown() }) }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterAll(() => room.close());

test("a handler gets what was enqueued, whatever JSON it is, by each way in", async () => {
  const seed = Date.now() % 2 ** 31;
  const payloads = fc.sample(jsonTree, { numRuns: 300, seed });
  const got = new Map<number, unknown>();
  await using worker = createWorker({
    queue,
    db: room.db,
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
    handlers: { echo: ({ job, payload }) => void got.set(job.id, payload) },
  });
  const many = payloads.map((payload) => ({ name: "echo" as const, payload }));
  const ids = await room.db.transaction(async (tx) => {
    const batch = [...(await queue.enqueueMany(tx, many.slice(0, 200)))];
    for (const { payload } of many.slice(200)) batch.push(await queue.enqueue(tx, "echo", payload));
    return batch.map(({ id }) => id);
  });
  await worker.start();
  for (const _ of ids) await room.spy.next("job.done");
  expect(
    ids.map((id) => got.get(id)),
    `fc.sample with seed ${seed}`,
  ).toEqual(payloads);
});
