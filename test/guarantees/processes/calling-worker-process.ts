/** Calls a destination over HTTP for each job; with HANG=1 it stops there, before the job is completed. */
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
  handlers: {
    work: async ({ payload, job, signal }) => {
      const response = await fetch(process.env["DESTINATION_URL"] ?? "", {
        method: "POST",
        headers: { "idempotency-key": job.idempotencyKey ?? "" },
        body: JSON.stringify(payload),
        signal,
      });
      // 409: the destination has done it for an earlier attempt.
      if (!response.ok && response.status !== 409) throw new Error(`HTTP ${response.status}`);
      report({ type: "called", status: response.status, attempt: job.attempt });
      if (process.env["HANG"] === "1") await new Promise<void>(() => {});
    },
  },
});
await worker.start();
report({ type: "started" });
