/** Runs `work` jobs, and notes each run of a handler in the table `runs`. */
import process from "node:process";
import { drizzle } from "drizzle-orm/node-postgres";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { report } from "../../support/worker-process.js";
import { queue } from "./jobs.js";

const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"] });
const worker = createWorker({
  queue,
  db: drizzle(pool),
  only: ["work"],
  concurrency: 10,
  handlers: {
    work: async ({ job }) => {
      await pool.query("insert into runs (job_id, pid) values ($1, $2)", [job.id, process.pid]);
    },
  },
});
await worker.start();
report({ type: "started" });
// As orchestrators do: the signal may come again while the worker is stopping.
process.on("SIGTERM", () => void worker.stop());
process.once("SIGTERM", () => {
  void worker.stop().then(() => pool.end());
});
