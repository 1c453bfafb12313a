import { drizzle } from "drizzle-orm/node-postgres";
import { expect, test } from "vitest";
import { createDatabase } from "../support/database.js";
import { waitUntil } from "../support/wait-until.js";
import { spawnWorkerProcess } from "../support/worker-process.js";
import { queue } from "./processes/jobs.js";

test("the jobs of a killed worker run again after their lease, on another worker", async () => {
  const database = await createDatabase();
  const { pool } = database;
  await pool.query("create table runs (job_id bigint not null, pid int not null)");
  const env = { DATABASE_URL: database.url };
  const jobs = await drizzle(pool).transaction((tx) =>
    queue.enqueueMany(
      tx,
      Array.from({ length: 50 }, (_, n) => ({ name: "work" as const, payload: { n } })),
    ),
  );
  const doomed = spawnWorkerProcess(
    new URL("./processes/hanging-worker-process.ts", import.meta.url),
    { env },
  );
  for (const { id } of jobs) await doomed.waitFor("running", ({ jobId }) => jobId === id);
  const heir = spawnWorkerProcess(
    new URL("./processes/recording-worker-process.ts", import.meta.url),
    { env },
  );
  await heir.waitFor("started");

  doomed.kill("SIGKILL");
  expect(await doomed.exit).toEqual({ code: null, signal: "SIGKILL" });
  // Recovery depends on the jobs' rows alone: whatever cleans up after dead workers may come first.
  await pool.query("delete from queue_workers");
  await pool.query(
    "create table leases as select id, lease_until from queue_jobs where lease_version = 1",
  );
  await waitUntil("all fifty are done", async () => {
    const { rows } = await pool.query("select from queue_jobs where status = 'done'");
    return rows.length === 50;
  });

  // How soon after it is measured by the crash tests: here it counts that the lease was waited for.
  const { rows: patience } = await pool.query(
    `select count(*) > 0 as were_leased, bool_and(started_at >= leases.lease_until) as were_left
       from leases join queue_jobs using (id)`,
  );
  expect(patience).toEqual([{ were_leased: true, were_left: true }]);
  const { rows: states } = await pool.query(
    `select distinct attempts, lease_version, expired_leases, error_history -> 0 ->> 'code' as error,
       (error_history -> 0 ->> 'attempt')::int as attempt from queue_jobs`,
  );
  expect(states).toEqual([
    { attempts: 2, lease_version: 2, expired_leases: 1, error: "LEASE_EXPIRED", attempt: 1 },
  ]);
  const { rows: runs } = await pool.query(
    "select count(distinct job_id)::int as jobs, count(*)::int as runs from runs",
  );
  expect(runs).toEqual([{ jobs: 50, runs: 50 }]);

  heir.kill("SIGTERM");
  expect(await heir.exit).toEqual({ code: 0, signal: null });
  await database.drop();
});
