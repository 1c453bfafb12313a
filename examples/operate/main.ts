/** An incident: letters fail, their queue is paused, and once the cause is gone they are sent after all. */

import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createAdmin } from "drizzle-queue/admin";
import * as queueSchema from "drizzle-queue/schema";
import { createWorker } from "drizzle-queue/worker";
import { z } from "zod";
import { nextEvent } from "../support/next-event.js";
import { openExample } from "../support/open-example.js";

const letter = defineJob({
  payload: z.object({ to: z.string() }),
  queue: "letters",
  maxAttempts: 1,
});
const queue = createQueue({ jobs: defineJobs({ letter }) });
const admin = createAdmin({ queue });

await using example = await openExample(queueSchema);
const { db } = example;

let isPostOfficeOpen = false;
const events = nextEvent();
const worker = createWorker({
  queue,
  db,
  instrumentation: events.instrumentation,
  handlers: {
    letter: ({ payload }) => {
      if (!isPostOfficeOpen) throw new Error("the post office is closed");
      console.log(`Sent to ${payload.to}`);
    },
  },
});
await worker.start();

const send = (to: string) => db.transaction((tx) => queue.enqueue(tx, "letter", { to }));
const counts = async () => {
  const [letters] = await admin.countJobs(db);
  return `${letters?.due ?? 0} due, ${letters?.failed ?? 0} failed`;
};

const ada = await send("Ada");
await events.next("job.failed");
const job = await admin.getJob(db, ada.id);
console.log(`Ada's letter: ${job?.status}, ${job?.errors.at(-1)?.message}`);

await admin.pauseQueue(db, "letters");
await send("Ben");
const { id } = await send("Cleo");
console.log(`Paused: ${await counts()}`);

// In one transaction with whatever the app does about it.
await db.transaction(async (tx) => {
  console.log(`Cleo does not want hers: ${await admin.cancel(tx, id)}`);
});

isPostOfficeOpen = true;
const { jobs: failed } = await admin.listJobs(db, { status: "failed", name: "letter" });
const requeued = await admin.requeueMany(
  db,
  failed.map((each) => each.id),
);
console.log(`Once more: ${requeued.map(({ answer }) => answer).join(", ")}`);
console.log(`Still paused: ${await counts()}`);
await admin.resumeQueue(db, "letters");
for (let sent = 0; sent < 2; sent++) await events.next("job.done");
await worker.stop();
console.log(`After it: ${await counts()}`);
