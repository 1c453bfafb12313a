import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as pauseFor } from "node:timers/promises";
import { sql } from "drizzle-orm";
import type pg from "pg";
import type { AckEntry } from "../ledger/entries.js";
import { type Journal, openJournal, readJournal } from "../ledger/journal.js";
import { makeOrders, type Order } from "../plan/orders.js";
import { type CrashQueue, createCrashQueue, NASTY } from "./jobs.js";
import { machineMs, openPool, type Surroundings } from "./surroundings.js";

/** How many orders a batch holds at most. */
const BATCH = 20;
/** How many transactions a producer has open at once. */
const AT_ONCE = 4;

interface Producer {
  readonly who: string;
  readonly db: ReturnType<typeof openPool>["db"];
  readonly queue: CrashQueue;
  readonly journal: Journal<AckEntry>;
}

/** An app that enqueues: row and job in one transaction, several jobs at once, or one by itself. */
export async function runProducer(surroundings: Surroundings): Promise<void> {
  const { folder, index, level, seed, who } = surroundings;
  const path = join(folder, `acked-p${index}.jsonl`);
  const before = existsSync(path) ? nosOf(path) : new Set<number>();
  const { db, pool } = openPool(surroundings, {
    name: "app",
    max: AT_ONCE,
    queryTimeoutMs: 5_000,
  });
  mendPool(pool);
  const producer: Producer = {
    who,
    db,
    queue: createCrashQueue(level),
    journal: openJournal<AckEntry>(path),
  };
  // Whatever it was about to do when it was killed stays unknown, as it would for an app.
  const left = makeOrders(level, seed).filter(
    (order) => order.producer === index && !before.has(order.no),
  );
  const lanes = Array.from({ length: AT_ONCE }, (_, lane) =>
    left.filter((_order, place) => place % AT_ONCE === lane),
  );
  await Promise.all(lanes.map((lane) => produce(producer, lane, surroundings.startedAtMs)));
  await Promise.race([pool.end(), pauseFor(500)]);
  process.exit(0);
}

/**
 * What an app without a worker has to do by itself: Drizzle 0.45 does not give
 * back a connection that ends while it sends `begin`, and node-postgres ends the
 * process over one that ends while it is in use.
 */
function mendPool(pool: pg.Pool): void {
  pool.on("connect", (client) => {
    client.on("error", () => undefined);
    client.on("end", () => {
      // Once Drizzle has had its chance to.
      setTimeout(() => {
        try {
          client.release(true);
        } catch {
          // It has been given back already, which is what is wanted.
        }
      }, 0);
    });
  });
}

const nosOf = (path: string): Set<number> => {
  // A line that a kill cut short would spoil the next one: it is ended first.
  const text = readFileSync(path, "utf8");
  if (!text.endsWith("\n") && text !== "") openJournal(path).write({ what: "cut short" });
  return new Set(readJournal<AckEntry>(path).map((entry) => entry.no));
};

async function produce(producer: Producer, orders: readonly Order[], startedAtMs: number) {
  let place = 0;
  while (place < orders.length) {
    const first = orders[place] as Order;
    const waitMs = startedAtMs + first.atMs - machineMs();
    if (waitMs > 0) await pauseFor(waitMs);
    const now = machineMs() - startedAtMs;
    const batch = [first];
    while (first.way === "batch" && batch.length < BATCH) {
      const next = orders[place + batch.length];
      if (next === undefined || next.way !== "batch" || next.atMs > now) break;
      batch.push(next);
    }
    place += batch.length;
    await send(producer, batch);
  }
}

/** Enqueues, and writes down what it knows before and after. */
async function send(producer: Producer, orders: readonly Order[]): Promise<void> {
  const { journal, who } = producer;
  for (const { no } of orders) journal.write({ what: "intent", no, who });
  try {
    const answers = await waysOf(producer, orders);
    for (const [index, { no }] of orders.entries()) {
      const { id, created } = answers[index] as { id: number; created: boolean };
      journal.write({ what: "acked", no, who, jobId: id, created });
    }
  } catch (error) {
    if (error instanceof RolledBack) {
      for (const { no } of orders) journal.write({ what: "rolled-back", no, who });
      return;
    }
    const code = codeOf(error);
    for (const { no } of orders) journal.write({ what: "unknown", no, who, code });
    await pauseFor(50);
  }
}

/** The app's own reason to roll back. */
class RolledBack extends Error {}

const codeOf = (error: unknown): string => {
  const { code, cause } = error as {
    readonly code?: string;
    readonly cause?: { readonly code?: string };
  };
  return cause?.code ?? code ?? String((error as Error).name);
};

type Answers = readonly { readonly id: number; readonly created: boolean }[];

async function waysOf({ db, queue, who }: Producer, orders: readonly Order[]): Promise<Answers> {
  const [first] = orders as readonly [Order];
  if (first.way === "now") {
    return [await queue.enqueueNow(db, nameOf(first), payloadOf(first), optionsOf(first))];
  }
  return db.transaction(async (tx) => {
    const answers =
      first.way === "batch"
        ? await queue.enqueueMany(
            tx,
            orders.map((order) => ({
              name: order.kind,
              payload: payloadOf(order),
              options: optionsOf(order),
            })),
          )
        : [await queue.enqueue(tx, nameOf(first), payloadOf(first), optionsOf(first))];
    for (const [index, { no }] of orders.entries()) {
      await tx.execute(
        sql`insert into ledger.orders (no, job_id, who) values (${no}, ${answers[index]?.id}, ${who})`,
      );
    }
    if (first.rollsBack) throw new RolledBack();
    return answers;
  });
}

/** All jobs have one payload, so that the compiler may take any name for one. */
const nameOf = ({ kind }: Order): "effect" => kind as "effect";

const payloadOf = ({ no, kind, workMs, fails }: Order) => ({
  no,
  kind,
  workMs,
  fails,
  text: kind === "nasty" ? (NASTY[no % NASTY.length] as string) : "",
});

const optionsOf = ({ kind, no }: Order) =>
  kind === "delayed" ? { delayMs: (no * 37) % 5_000 } : {};
