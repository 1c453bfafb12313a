import process from "node:process";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { drizzle as drizzlePostgresJs } from "drizzle-orm/postgres-js";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import postgres from "postgres";
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
  const url = process.env["DATABASE_URL"] ?? "";
  const db =
    process.env["DRIVER"] === "postgres.js"
      ? // With its own query for array types it would end the process when the server ends a new connection.
        drizzlePostgresJs(postgres(url, { max: 2, fetch_types: false, onnotice: () => undefined }))
      : drizzle(new pg.Pool({ connectionString: url, max: 2 }));
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
