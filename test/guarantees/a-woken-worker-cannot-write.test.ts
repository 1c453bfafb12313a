import { drizzle } from "drizzle-orm/node-postgres";
import { expect, test } from "vitest";
import { createDatabase } from "../support/database.js";
import { waitUntil } from "../support/wait-until.js";
import { spawnWorkerProcess } from "../support/worker-process.js";
import { queue } from "./processes/jobs.js";

const script = new URL("./processes/freezing-worker-process.ts", import.meta.url);

test.each(["before commit", "inside commit"])(
  "a worker that was frozen %s for longer than its lease is refused when it wakes; the effect is there once",
  async (pausesAt) => {
    const database = await createDatabase();
    const { pool } = database;
    await pool.query("create table effects (job_id bigint not null, pid int not null)");
    await pool.query("create table gates ()");
    const env = { DATABASE_URL: database.url };
    const { id } = await queue.enqueueNow(drizzle(pool), "work", { n: 1 });
    const frozen = spawnWorkerProcess(script, { env: { ...env, PAUSES_AT: pausesAt } });
    await frozen.waitFor("paused");

    frozen.kill("SIGSTOP");
    const other = spawnWorkerProcess(script, { env });
    await other.waitFor("job.done", ({ jobId }) => jobId === id);
    await pool.query("insert into gates default values");
    frozen.kill("SIGCONT");
    await frozen.waitFor("refused");

    const { rows: effects } = await pool.query("select job_id::int, pid from effects");
    expect(effects).toEqual([{ job_id: id, pid: other.pid }]);
    const { rows: jobs } = await pool.query(
      "select status, attempts, lease_version from queue_jobs",
    );
    expect(jobs).toEqual([{ status: "done", attempts: 2, lease_version: 2 }]);
    const { rows: keys } = await pool.query("select job_id::int from queue_processed_keys");
    expect(keys).toEqual([{ job_id: id }]);
    expect(frozen.messages.filter(({ type }) => type === "committed")).toEqual([]);

    // It has come back to life all the same: the next job may be its.
    other.kill("SIGKILL");
    await other.exit;
    await queue.enqueueNow(drizzle(pool), "work", { n: 2 });
    await waitUntil("the next job is done", async () => {
      const { rows } = await pool.query("select from queue_jobs where status = 'done'");
      return rows.length === 2;
    });
    frozen.kill("SIGKILL");
    await frozen.exit;
    await database.drop();
  },
);

test("a handler that kept its process busy for longer than its lease is refused; the effect is there once", async () => {
  const database = await createDatabase();
  const { pool } = database;
  await pool.query("create table effects (job_id bigint not null, pid int not null)");
  const env = { DATABASE_URL: database.url };
  // The other worker stands by, frozen, until the busy one has claimed the job.
  const other = spawnWorkerProcess(script, { env });
  await other.waitFor("started");
  other.kill("SIGSTOP");
  const { id } = await queue.enqueueNow(drizzle(pool), "work", { n: 1 });
  const busy = spawnWorkerProcess(script, { env: { ...env, PAUSES_AT: "busy" } });
  await busy.waitFor("paused");

  other.kill("SIGCONT");
  await other.waitFor("job.done", ({ jobId }) => jobId === id);
  await busy.waitFor("refused");
  await busy.waitFor("event_loop.blocked");

  const { rows: effects } = await pool.query("select job_id::int, pid from effects");
  expect(effects).toEqual([{ job_id: id, pid: other.pid }]);
  const { rows: jobs } = await pool.query("select status, attempts, lease_version from queue_jobs");
  expect(jobs).toEqual([{ status: "done", attempts: 2, lease_version: 2 }]);
  for (const worker of [busy, other]) {
    worker.kill("SIGKILL");
    await worker.exit;
  }
  await database.drop();
});
