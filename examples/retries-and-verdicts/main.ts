/** How an attempt can end: done, retried, not worth a retry, failed for good, or later. */

import { asc } from "drizzle-orm";
import { createQueue, defineJob, defineJobs, exponential, FailJob, SnoozeJob } from "drizzle-queue";
import * as queueSchema from "drizzle-queue/schema";
import { createWorker } from "drizzle-queue/worker";
import { z } from "zod";
import { nextEvent } from "../support/next-event.js";
import { openExample } from "../support/open-example.js";

class BadRequest extends Error {}

const payload = z.object({});
const retry = { payload, backoff: exponential({ baseMs: 20, maxMs: 200 }), maxAttempts: 3 };

const jobs = defineJobs({
  succeedsAtTheThird: defineJob(retry),
  neverSucceeds: defineJob(retry),
  isNotWorthARetry: defineJob({
    ...retry,
    retryIf: (error) => !(error instanceof BadRequest),
  }),
  failsForGood: defineJob(retry),
  waitsForItsTurn: defineJob(retry),
  takesTooLong: defineJob({ ...retry, timeoutMs: 50, maxAttempts: 1 }),
});
const queue = createQueue({ jobs });

await using example = await openExample(queueSchema);
const { db } = example;

let snoozed = 0;
const events = nextEvent();

const worker = createWorker({
  queue,
  db,
  handlers: {
    succeedsAtTheThird: ({ job }) => {
      if (job.attempt < 3) throw new Error("the other side is down");
    },
    neverSucceeds: () => {
      throw new Error("still down");
    },
    isNotWorthARetry: () => {
      throw new BadRequest("400: unknown customer");
    },
    failsForGood: () => {
      throw new FailJob("the account was closed");
    },
    waitsForItsTurn: () => {
      if (snoozed++ < 2) throw new SnoozeJob({ delayMs: 20 });
    },
    takesTooLong: ({ signal }) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  },
  instrumentation: events.instrumentation,
});
await worker.start();
await db.transaction((tx) =>
  queue.enqueueMany(
    tx,
    Object.keys(jobs).map((name) => ({ name: name as keyof typeof jobs, payload: {} })),
  ),
);
for (let done = 0; done < 2; done++) await events.next("job.done");
for (let failed = 0; failed < 4; failed++) await events.next("job.failed");
await worker.stop();

const { queueJobs } = queueSchema;
for (const job of await db.select().from(queueJobs).orderBy(asc(queueJobs.id))) {
  const error = job.status === "failed" ? `: ${job.lastError}` : "";
  console.log(
    `${job.name}: ${job.status} after ${job.attempts} of ${job.maxAttempts} attempts${error}`,
  );
}
console.log(`waitsForItsTurn was put off ${snoozed - 1} times, which used no attempt.`);
