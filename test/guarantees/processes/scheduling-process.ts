/** Runs a scheduler until it is killed. */
import process from "node:process";
import { drizzle } from "drizzle-orm/node-postgres";
import { createScheduler } from "drizzle-queue/scheduler";
import pg from "pg";
import { report } from "../../support/worker-process.js";
import { queue } from "./jobs.js";

const scheduler = createScheduler({
  queue,
  db: drizzle(new pg.Pool({ connectionString: process.env["DATABASE_URL"] })),
  schedules: {
    tick: {
      job: "work",
      cron: "* * * * * *",
      payload: ({ dueAt }) => ({ n: dueAt.getTime() }),
      options: { idempotencyKey: null },
    },
  },
});
await scheduler.start();
report({ type: "started" });
