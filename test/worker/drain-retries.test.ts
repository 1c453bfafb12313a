import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({ work: defineJob({ payload: z.object({}) }) }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

/** Jobs that are never fetched ahead: an attempt of theirs could be lost in somebody else's crash. */
const onlyForFreeSlots = {
  "with a single attempt": "'queued', 0, null, 1, 0",
  "that were tried before": "'queued', 1, null, 10, 0",
  "whose lease ran out": "'running', 1, now() - interval '1 second', 10, 0",
  "that may have killed their workers": "'queued', 2, null, 10, 2",
};

test.each(Object.entries(onlyForFreeSlots))(
  "fifty jobs %s do not wait for a poll each time the slots are full",
  async (_, values) => {
    await using worker = createWorker({
      queue,
      db: room.db,
      concurrency: 2,
      pollIntervalMs: 1_000,
      instrumentation: room.spy.listener,
      handlers: { work: () => {} },
    });
    await worker.start();
    // Right after its start a worker polls closely.
    await waitUntil("it has settled down", async () => {
      const rows = await room.rows(
        "select from queue_workers where waiting and started_at < now() - interval '2 seconds'",
      );
      return rows.length === 1;
    });
    // Without a notification, as a recovery has none.
    await room.rows(
      `insert into queue_jobs (queue, name, payload, status, attempts, lease_until, max_attempts, expired_leases)
       select 'default', 'work', '{}', ${values} from generate_series(1, 50)`,
    );
    const startedAt = performance.now();
    await waitUntil("all are done", () => room.spy.all("job.done").length === 50, {
      timeoutMs: 30_000,
    });
    // Twenty-five rounds: at one for each poll they would take 25 seconds.
    expect(performance.now() - startedAt).toBeLessThan(15_000);
    expect(await room.rows("select distinct status from queue_jobs")).toEqual([{ status: "done" }]);
  },
);
