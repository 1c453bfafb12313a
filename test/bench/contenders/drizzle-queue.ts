import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { queueExtrasSql } from "drizzle-queue/schema";
import { createWorker, type Worker } from "drizzle-queue/worker";
import pg from "pg";
import { z } from "zod";
import type { Contender, ContenderOptions } from "../contender.js";

/** Relative to the project, where the measured processes run. */
const migrationsFolder = "drizzle";

/** The job that everybody runs: a small payload, checked where the library checks at all. */
export const queue = createQueue({
  jobs: defineJobs({ bench: defineJob({ payload: z.object({ n: z.int(), note: z.string() }) }) }),
});

/** The queues of this entry: the default one, or so many. */
const queuesOf = (settings: ContenderOptions["settings"]): readonly string[] =>
  typeof settings["queues"] === "number"
    ? Array.from({ length: settings["queues"] }, (_, index) => `queue_${index}`)
    : ["default"];

/** How many jobs go in one statement when the queue is filled. */
const BATCH = 10_000;

/** Opens the library as an app would: a pool, a Drizzle database, a worker. */
export function open({ url, concurrency, settings }: ContenderOptions): Contender {
  const pool = new pg.Pool({ connectionString: url, max: concurrency + 2 });
  const db = drizzle(pool);
  const queues = queuesOf(settings);
  let worker: Worker | undefined;
  return {
    async install() {
      await migrate(db, { migrationsFolder });
      if (settings["commit"] === true) await db.execute(sql`create table effects (n integer)`);
      if (settings["extras"] === true) await db.execute(sql.raw(queueExtrasSql()));
    },
    async seed(count) {
      for (let first = 0; first < count; first += BATCH) {
        const size = Math.min(BATCH, count - first);
        const items = Array.from({ length: size }, (_, index) => ({
          name: "bench" as const,
          payload: { n: first + index, note: "a small payload" },
          options: { queue: queues[index % queues.length] ?? "default" },
        }));
        await db.transaction((tx) => queue.enqueueMany(tx, items));
      }
    },
    async enqueue(number) {
      await queue.enqueueNow(db, "bench", { n: number, note: "a small payload" });
    },
    async enqueueLate(number, openMs) {
      await db.transaction(async (tx) => {
        await queue.enqueue(tx, "bench", { n: number, note: "a small payload" });
        await new Promise((resolve) => setTimeout(resolve, openMs));
      });
    },
    async enqueueAt(number, runAt) {
      await queue.enqueueNow(db, "bench", { n: number, note: "a small payload" }, { runAt });
    },
    async start(handler) {
      worker = createWorker({
        queue,
        db,
        concurrency,
        queues,
        handlers: {
          bench: ({ payload: { n }, commit }) =>
            settings["commit"] === true
              ? commit(async (tx) => {
                  await tx.execute(sql`insert into effects (n) values (${n})`);
                  await handler(n);
                })
              : handler(n),
        },
        ...(settings["done"] === 0 && { retention: { done: 0 } }),
      });
      await worker.start();
    },
    async isUnfinished() {
      const { rows } = await pool.query(
        "select exists (select from queue_jobs where finished_at is null and blockers = 0) as unfinished",
      );
      return rows[0].unfinished;
    },
    async stop() {
      await worker?.stop({ gracePeriodMs: 2_000 });
      await pool.end();
    },
  };
}
