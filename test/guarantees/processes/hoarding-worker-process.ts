/** Runs two jobs at a time and fetches others ahead; a poison job kills it once ten of them wait. */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { drizzle } from "drizzle-orm/node-postgres";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { report } from "../../support/worker-process.js";
import { queue } from "./jobs.js";

const SLOTS = 2;
const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"] });

async function heldJobs(): Promise<number> {
  const { rowCount } = await pool.query(
    "select from queue_jobs where status = 'running' and locked_by = $1",
    [worker.id],
  );
  return rowCount ?? 0;
}

const worker = createWorker({
  queue,
  db: drizzle(pool),
  only: ["quick", "poison", "innocent"],
  concurrency: SLOTS,
  pollIntervalMs: 50,
  handlers: {
    // The shorter the jobs are, the more of them are fetched ahead.
    quick: () => undefined,
    poison: async () => {
      report({ type: "poisoned" });
      while ((await heldJobs()) < SLOTS + 10) await sleep(20);
      process.kill(process.pid, "SIGKILL");
    },
    innocent: ({ job }) => {
      report({ type: "innocent", id: job.id, attempt: job.attempt });
      return new Promise<void>(() => {});
    },
  },
});
await worker.start();
