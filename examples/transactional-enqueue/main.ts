/** A job exists exactly when the app's own rows do: `enqueue` is part of the app's transaction. */

import { bigint, pgTable, text } from "drizzle-orm/pg-core";
import { createQueue, defineJob, defineJobs, isQueueError } from "drizzle-queue";
import * as queueSchema from "drizzle-queue/schema";
import { z } from "zod";
import { openExample } from "../support/open-example.js";

const orders = pgTable("orders", {
  id: bigint("id", { mode: "number" }).primaryKey(),
  item: text("item").notNull(),
});

const jobs = defineJobs({
  confirmOrder: defineJob({
    payload: z.object({ orderId: z.number().int() }),
    idempotencyKey: ({ orderId }) => String(orderId),
  }),
});
const { enqueue } = createQueue({ jobs });

await using example = await openExample({ ...queueSchema, orders });
const { db } = example;

async function show(what: string): Promise<void> {
  const jobCount = await db.$count(queueSchema.queueJobs);
  console.log(`${what}: orders ${await db.$count(orders)}, jobs ${jobCount}`);
}

// Both rows are written, or neither.
await db.transaction(async (tx) => {
  await tx.insert(orders).values({ id: 1, item: "a lamp" });
  await enqueue(tx, "confirmOrder", { orderId: 1 });
});
await show("Committed");

await db
  .transaction(async (tx) => {
    await tx.insert(orders).values({ id: 2, item: "a chair" });
    await enqueue(tx, "confirmOrder", { orderId: 2 });
    throw new Error("The card was declined");
  })
  .catch((error: Error) => console.log(`${error.message}.`));
await show("Rolled back");

// The same key again is answered with the first job.
await db.transaction(async (tx) => {
  const job = await enqueue(tx, "confirmOrder", { orderId: 1 });
  console.log(`Enqueued again: created ${job.created}, it is ${job.status} already`);
});
await show("After the second enqueue");

// A payload that does not fit is refused before any SQL, so the transaction goes on.
await db.transaction(async (tx) => {
  await enqueue(tx, "confirmOrder", { orderId: 0.5 }).catch((error: unknown) => {
    if (!isQueueError(error, "INVALID_PAYLOAD")) throw error;
    console.log(`Refused: ${error.code} at ${error.issues[0]?.path.join(".")}`);
  });
  await tx.insert(orders).values({ id: 3, item: "a table" });
});
await show("After the refusal");
