/** Runs innocent jobs, and is killed by the first poison job that it starts. */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { drizzle } from "drizzle-orm/node-postgres";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { report } from "../../support/worker-process.js";
import { queue } from "./jobs.js";

const worker = createWorker({
  queue,
  db: drizzle(new pg.Pool({ connectionString: process.env["DATABASE_URL"] })),
  only: ["poison", "innocent"],
  concurrency: 24,
  handlers: {
    poison: ({ job }) => {
      report({ type: "poisoned", attempt: job.attempt });
      process.kill(process.pid, "SIGKILL");
    },
    // Long enough to be under way when the poison strikes.
    innocent: () => sleep(20),
  },
});
await worker.start();
report({ type: "started" });
