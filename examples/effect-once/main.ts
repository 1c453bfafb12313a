/**
 * An effect in the database happens once, though its job runs twice.
 *
 * The first attempt pays, and errors before it has committed; the second pays
 * and commits, which completes the job in the same transaction. Who asks to
 * pay the same invoice again is answered with the job that did it.
 */

import { eq, sql } from "drizzle-orm";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import * as queueSchema from "drizzle-queue/schema";
import { createWorker } from "drizzle-queue/worker";
import { z } from "zod";
import { nextEvent } from "../support/next-event.js";
import { openExample } from "../support/open-example.js";

const accounts = pgTable("accounts", {
  owner: text("owner").primaryKey(),
  balance: integer("balance").notNull(),
});

const jobs = defineJobs({
  pay: defineJob({
    payload: z.object({ invoice: z.string(), to: z.string(), amount: z.number().int() }),
    idempotencyKey: ({ invoice }) => invoice,
    backoff: fixed({ delayMs: 50 }),
  }),
});
const queue = createQueue({ jobs });

await using example = await openExample({ ...queueSchema, accounts });
const { db } = example;
await db.insert(accounts).values({ owner: "Ada", balance: 100 });

const events = nextEvent();
const worker = createWorker({
  queue,
  db,
  instrumentation: events.instrumentation,
  handlers: {
    pay: async ({ payload, job, commit }) => {
      await commit(async (tx) => {
        await tx
          .update(accounts)
          .set({ balance: sql`balance + ${payload.amount}` })
          .where(eq(accounts.owner, payload.to));
        if (job.attempt === 1) throw new Error("the power went off");
      });
    },
  },
});
await worker.start();

async function pay(): Promise<void> {
  const job = await queue.enqueueNow(db, "pay", { invoice: "INV-7", to: "Ada", amount: 20 });
  console.log(`Invoice INV-7: ${job.created ? "a new job" : `no new job, it is ${job.status}`}`);
}

async function showBalance(): Promise<void> {
  const [ada] = await db.select().from(accounts).where(eq(accounts.owner, "Ada"));
  console.log(`Balance: ${ada?.balance}`);
}

await showBalance();
await pay();
const errored = await events.next("attempt.errored");
console.log(`Attempt ${errored.attempt}: ${errored.error.message}, rolled back`);
await showBalance();
const done = await events.next("job.done");
console.log(`Attempt ${done.attempt}: done`);
await showBalance();
await pay();
await showBalance();
await worker.stop();
