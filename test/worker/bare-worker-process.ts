import process from "node:process";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { z } from "zod";
import { report } from "../support/worker-process.js";

/** A worker as careless as can be: nobody listens to its events, its pool or its clients. */
export const bareJobs = defineJobs({
  effect: defineJob({
    payload: z.object({ n: z.number() }),
    leaseMs: 2_000,
    maxAttempts: 100,
    backoff: fixed({ delayMs: 20 }),
  }),
});

if (process.argv[1]?.endsWith("bare-worker-process.ts")) {
  const db = drizzle(new pg.Pool({ connectionString: process.env["DATABASE_URL"], max: 2 }));
  const worker = createWorker({
    queue: createQueue({ jobs: bareJobs }),
    db,
    concurrency: 4,
    handlers: {
      effect: async ({ payload, commit }) => {
        await commit(async (tx) => {
          await tx.execute(sql`insert into effects (n) values (${payload.n})`);
          // A pause inside of the transaction, in which no query is under way.
          await new Promise((resolve) => setTimeout(resolve, 5));
        });
      },
    },
  });
  await worker.start();
  report({ type: "started" });
  process.once("SIGTERM", () => {
    void worker.stop().then(() => process.exit(0));
  });
}
