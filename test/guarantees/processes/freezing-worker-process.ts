/**
 * Runs one job up to a point that the test has chosen, and goes on when the
 * table `gates` has a row. The test freezes the process in between.
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { report } from "../../support/worker-process.js";
import { queue } from "./jobs.js";

const pausesAt = process.env["PAUSES_AT"];
const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"] });

async function pause(isGateOpen: () => Promise<{ readonly rows: unknown[] }>): Promise<void> {
  report({ type: "paused", pausesAt });
  while ((await isGateOpen()).rows.length === 0) await sleep(20);
}

/** Keeps the process busy for more than two leases, so that not even a timer runs. */
function spin(): void {
  report({ type: "paused", pausesAt });
  const until = performance.now() + 5_000;
  while (performance.now() < until);
}

const worker = createWorker({
  queue,
  db: drizzle(pool),
  only: ["work"],
  pollIntervalMs: 100,
  instrumentation: {
    event(event) {
      if (event.type === "lease.lost") report({ ...event });
      if (event.type === "job.done") report({ ...event });
      if (event.type === "event_loop.blocked") report({ ...event });
    },
  },
  handlers: {
    work: async ({ job, commit }) => {
      if (pausesAt === "busy") spin();
      if (pausesAt === "before commit") await pause(() => pool.query("select from gates"));
      try {
        await commit(async (tx) => {
          await tx.execute(sql`insert into effects values (${job.id}, ${process.pid})`);
          if (pausesAt === "inside commit") await pause(() => tx.execute(sql`select from gates`));
        });
        report({ type: "committed" });
      } catch (error) {
        report({ type: "refused", error: String(error) });
        throw error;
      }
    },
  },
});
await worker.start();
report({ type: "started" });
