import { drizzle } from "drizzle-orm/node-postgres";
import { expect, test } from "vitest";
import { createDatabase } from "../support/database.js";
import { waitUntil } from "../support/wait-until.js";
import { spawnWorkerProcess } from "../support/worker-process.js";
import { queue } from "./processes/jobs.js";

test("two workers that claim at once get different jobs", async () => {
  const database = await createDatabase();
  const { pool } = database;
  await pool.query("create table runs (job_id bigint not null, pid int not null)");
  const script = new URL("./processes/recording-worker-process.ts", import.meta.url);
  const env = { DATABASE_URL: database.url };
  const workers = [spawnWorkerProcess(script, { env }), spawnWorkerProcess(script, { env })];
  for (const worker of workers) await worker.waitFor("started");

  // All become visible at one moment, to both.
  await drizzle(pool).transaction((tx) =>
    queue.enqueueMany(
      tx,
      Array.from({ length: 2_000 }, (_, n) => ({ name: "work" as const, payload: { n } })),
    ),
  );
  await waitUntil(
    "all jobs are done",
    async () => {
      const { rows } = await pool.query("select from queue_jobs where status <> 'done' limit 1");
      return rows.length === 0;
    },
    { timeoutMs: 40_000 },
  );

  const { rows: runs } = await pool.query("select job_id, pid from runs");
  expect(runs).toHaveLength(2_000);
  expect(new Set(runs.map(({ job_id }) => job_id)).size).toBe(2_000);
  expect(new Set(runs.map(({ pid }) => pid))).toEqual(new Set(workers.map(({ pid }) => pid)));
  const { rows: claims } = await pool.query(
    "select distinct attempts, lease_version, outcome from queue_jobs",
  );
  expect(claims).toEqual([{ attempts: 1, lease_version: 1, outcome: "done" }]);

  for (const worker of [...workers, ...workers]) worker.kill("SIGTERM");
  for (const worker of workers) expect(await worker.exit).toEqual({ code: 0, signal: null });
  await database.drop();
});
