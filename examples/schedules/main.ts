/** A job for each second: two copies of the app run, one of them dies, and no second has two jobs. */

import { asc } from "drizzle-orm";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createScheduler } from "drizzle-queue/scheduler";
import * as queueSchema from "drizzle-queue/schema";
import { createWorker } from "drizzle-queue/worker";
import { z } from "zod";
import { nextEvent } from "../support/next-event.js";
import { openExample } from "../support/open-example.js";

const measure = defineJob({
  payload: z.object({ second: z.iso.datetime() }),
  // A measurement that was taken by hand is not taken again.
  idempotencyKey: ({ second }) => second,
});
const queue = createQueue({ jobs: defineJobs({ measure }) });

await using example = await openExample(queueSchema);
const { db } = example;

const events = nextEvent();
const copyOfTheApp = () =>
  createScheduler({
    queue,
    db,
    instrumentation: events.instrumentation,
    schedules: {
      everySecond: {
        job: "measure",
        cron: "* * * * * *",
        timeZone: "Europe/Berlin",
        payload: ({ dueAt }) => ({ second: dueAt.toISOString() }),
      },
    },
  });
const [first, second] = [copyOfTheApp(), copyOfTheApp()];
await first.start();
await second.start();

const worker = createWorker({
  queue,
  db,
  handlers: { measure: () => undefined },
  retention: { done: "keep" },
});
await worker.start();
for (let count = 0; count < 2; count++) await events.next("schedule.enqueued");
await first.stop();
console.log("One copy has stopped.");
for (let count = 0; count < 2; count++) await events.next("schedule.enqueued");
await second.stop();

const { queueJobs } = queueSchema;
const rows = await db.select().from(queueJobs).orderBy(asc(queueJobs.id));
const seconds = rows.map((row) => (row.payload as { second: string }).second);
const [from = ""] = seconds;
const expected = seconds.map((_, index) =>
  new Date(Date.parse(from) + index * 1_000).toISOString(),
);
console.log(`A job for each of ${seconds.length} seconds: ${String(seconds) === String(expected)}`);

const again = await db.transaction((tx) => queue.enqueue(tx, "measure", { second: from }));
console.log(`The first second by hand: ${again.created ? "a new job" : "it has its job"}`);
await worker.stop();
