/** Claims up to fifty `work` jobs and never ends any of them. */
import process from "node:process";
import { drizzle } from "drizzle-orm/node-postgres";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { report } from "../../support/worker-process.js";
import { queue } from "./jobs.js";

const worker = createWorker({
  queue,
  db: drizzle(new pg.Pool({ connectionString: process.env["DATABASE_URL"] })),
  only: ["work"],
  concurrency: 50,
  handlers: {
    work: ({ job }) => {
      report({ type: "running", jobId: job.id });
      return new Promise<void>(() => {});
    },
  },
});
await worker.start();
