/**
 * Measures what an enqueue adds to an app's transaction, against Drizzle's own
 * insert of the same row, in one process and by turns.
 */
import process from "node:process";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import { createQueue, defineJob, defineJobs, type TxOf } from "drizzle-queue";
import { queueJobs } from "drizzle-queue/schema";
import pg from "pg";
import { z } from "zod";

/** What the process answers, in microseconds per operation and transactions a second. */
export interface EnqueueFigures {
  readonly inTransactionUs: Readonly<Record<Way, number>>;
  readonly transactionsPerSecond: Readonly<Record<Way, number>>;
}

export type Way = "nothing" | "drizzle" | "enqueue" | "enqueueKeyed";

const [url = "", clients = "1", forMs = "2000"] = process.argv.slice(2);
const payload = z.object({ n: z.int(), note: z.string() });
const queue = createQueue({
  jobs: defineJobs({
    bench: defineJob({ payload }),
    keyed: defineJob({ payload, idempotencyKey: ({ n }) => `order ${n}` }),
  }),
});
const orders = pgTable("orders", {
  id: integer("id").primaryKey().generatedAlwaysAsIdentity(),
  customer: text("customer").notNull(),
});
const pool = new pg.Pool({ connectionString: url, max: Number(clients) });
const db = drizzle(pool);
type Tx = TxOf<typeof db>;

let last = 0;
const ways: Readonly<Record<Way, (tx: Tx) => Promise<unknown>>> = {
  nothing: async () => undefined,
  drizzle: (tx) =>
    tx
      .insert(queueJobs)
      .values({ queue: "default", name: "bench", payload: next(), priority: 5, maxAttempts: 10 })
      .returning({ id: queueJobs.id }),
  enqueue: (tx) => queue.enqueue(tx, "bench", next()),
  enqueueKeyed: (tx) => queue.enqueue(tx, "keyed", next()),
};
const names = Object.keys(ways) as Way[];

function next() {
  last += 1;
  return { n: last, note: "a small payload" };
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

const perWay = (of: (way: Way) => number) =>
  Object.fromEntries(names.map((way) => [way, of(way)])) as Record<Way, number>;

/** One client: each way by turns within the same transactions. */
async function oneByOne(transactions: number): Promise<Record<Way, number>> {
  const took = new Map<Way, number[]>(names.map((way) => [way, []]));
  for (let count = 0; count < transactions; count += 1) {
    await db.transaction(async (tx) => {
      for (let turn = 0; turn < 10; turn += 1) {
        for (const way of names) {
          const beganMs = performance.now();
          await ways[way](tx);
          took.get(way)?.push((performance.now() - beganMs) * 1_000);
        }
      }
    });
  }
  return perWay((way) => median(took.get(way) ?? []));
}

/** All clients: an order and its job in one transaction, again and again; the ways by turns of a quarter second. */
async function sideBySide(): Promise<Record<Way, number>> {
  const done = new Map<Way, number>(names.map((way) => [way, 0]));
  const spentMs = new Map<Way, number>(names.map((way) => [way, 0]));
  const turns = Math.ceil(Number(forMs) / 250);
  for (let turn = 0; turn < turns; turn += 1) {
    for (const way of names) {
      const beganMs = performance.now();
      const client = async (): Promise<void> => {
        while (performance.now() - beganMs < 250) {
          await db.transaction(async (tx) => {
            await tx.insert(orders).values({ customer: "somebody" });
            await ways[way](tx);
          });
          done.set(way, (done.get(way) ?? 0) + 1);
        }
      };
      await Promise.all(Array.from({ length: Number(clients) }, client));
      spentMs.set(way, (spentMs.get(way) ?? 0) + performance.now() - beganMs);
    }
  }
  return perWay((way) => ((done.get(way) ?? 0) / (spentMs.get(way) ?? 1)) * 1_000);
}

await migrate(db, { migrationsFolder: "drizzle" });
await db.execute(
  sql`create table orders (id integer primary key generated always as identity, customer text not null)`,
);
await oneByOne(20);
const figures: EnqueueFigures = {
  inTransactionUs: await oneByOne(100),
  transactionsPerSecond: await sideBySide(),
};
await pool.end();
process.send?.(figures);
process.disconnect();
