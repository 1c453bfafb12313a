import process from "node:process";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { z } from "zod";
import { report } from "../support/worker-process.js";

/**
 * A worker as an app has it: it listens to no event and to no error of its pool.
 * Each job writes one row of `effects` in its commit.
 */
export const effectJobs = defineJobs({
  effect: defineJob({
    payload: z.object({ n: z.number() }),
    leaseMs: 3_000,
    maxAttempts: 50,
    backoff: fixed({ delayMs: 100 }),
  }),
});

if (process.argv[1]?.endsWith("effect-worker-process.ts")) {
  const db = drizzle(new pg.Pool({ connectionString: process.env["DATABASE_URL"] }));
  const worker = createWorker({
    queue: createQueue({ jobs: effectJobs }),
    db,
    concurrency: 10,
    handlers: {
      effect: async ({ payload, commit }) => {
        await commit(async (tx) => {
          await tx.execute(sql`insert into effects (n) values (${payload.n})`);
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
