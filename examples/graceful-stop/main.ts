/**
 * Stopping a worker: what runs may finish, what has not started goes back.
 *
 * A real program stops on a signal:
 * `process.on("SIGTERM", () => worker.stop({ gracePeriodMs: 30_000 }))`, since a second signal would end a process that no longer listens.
 */
import { once } from "node:events";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import * as queueSchema from "drizzle-queue/schema";
import { createWorker } from "drizzle-queue/worker";
import { z } from "zod";
import { nextEvent } from "../support/next-event.js";
import { openExample } from "../support/open-example.js";

const jobs = defineJobs({
  polite: defineJob({ payload: z.object({}) }),
  stubborn: defineJob({ payload: z.object({}), maxAttempts: 2 }),
});
const queue = createQueue({ jobs });

await using example = await openExample(queueSchema);
const { db } = example;
const events = nextEvent();
const finish = new AbortController();

const worker = createWorker({
  queue,
  db,
  concurrency: 2,
  instrumentation: events.instrumentation,
  handlers: {
    // Ends its work although the worker is being stopped.
    polite: async () => {
      await once(finish.signal, "abort");
    },
    // Goes on until it is told to end, and says why it did.
    stubborn: async ({ signal }) => {
      await once(signal, "abort");
      throw signal.reason;
    },
  },
});

await worker.start();
await queue.enqueueNow(db, "polite", {});
await queue.enqueueNow(db, "stubborn", {});
await events.next("job.started");
await events.next("job.started");
await queue.enqueueNow(db, "polite", {});
console.log("Two handlers run, one job waits.");

const startedAt = performance.now();
const stopped = worker.stop({ gracePeriodMs: 300 });
finish.abort();
const done = await events.next("job.done");
console.log(`${done.jobName}: was let finish`);
const report = await stopped;
const tookMs = performance.now() - startedAt;
console.log(`stop() resolved within its grace period and 2 s: ${tookMs < 2_300}`);
console.log(`Abandoned: ${report.abandoned.length}`);

const { queueJobs } = queueSchema;
for (const job of await db.select().from(queueJobs).orderBy(queueJobs.id)) {
  console.log(`${job.name}: ${job.status}, attempts used: ${job.attempts}`);
}
