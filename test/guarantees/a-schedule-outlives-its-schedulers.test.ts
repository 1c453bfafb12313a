import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { createDatabase } from "../support/database.js";
import { waitUntil } from "../support/wait-until.js";
import { spawnWorkerProcess, type WorkerProcess } from "../support/worker-process.js";

const ROUNDS = 12;

test("each occurrence becomes at most one job, and most do, however schedulers are killed, stopped and cut off, and the next ones go on", async () => {
  const database = await createDatabase();
  const { pool } = database;
  const spawned: WorkerProcess[] = [];
  const spawn = async (): Promise<WorkerProcess> => {
    const child = spawnWorkerProcess(
      new URL("./processes/scheduling-process.ts", import.meta.url),
      { env: { DATABASE_URL: database.url } },
    );
    spawned.push(child);
    await child.waitFor("started");
    return child;
  };
  const times = async (): Promise<number[]> => {
    const { rows } = await pool.query<{ n: string }>(
      "select payload->>'n' as n from queue_jobs order by id",
    );
    return rows.map(({ n }) => Number(n));
  };
  const cutAll = () =>
    pool.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    );

  let running: WorkerProcess[] = await Promise.all([spawn(), spawn(), spawn()]);
  for (let round = 0; round < ROUNDS; round += 1) {
    const [victim, frozen, ...others] = running;
    // Anywhere in a second: turns are taken at its beginning.
    await sleep(300 + Math.random() * 900);
    frozen?.kill("SIGSTOP");
    if (round % 3 === 0) await cutAll();
    victim?.kill("SIGKILL");
    const [heir] = await Promise.all([spawn(), victim?.exit]);
    frozen?.kill("SIGCONT");
    running = [...others, frozen, heir].filter((child) => child !== undefined);
  }
  const soFar = (await times()).length;
  await waitUntil("the schedule goes on", async () => (await times()).length >= soFar + 3);
  for (const child of running) {
    child.kill("SIGKILL");
    await child.exit;
  }

  const due = await times();
  expect(due).toEqual([...new Set(due)].toSorted((a, b) => a - b));
  expect(due.every((ms) => ms % 1_000 === 0)).toBe(true);
  // Never early, by the database's clock.
  const { rows: early } = await pool.query(
    "select id from queue_jobs where created_at < 'epoch'::timestamptz + (payload->>'n')::bigint * interval '1 millisecond'",
  );
  expect(early).toEqual([]);
  // Who dies within a turn holds its schedule up until the server knows; who is frozen, for ten seconds at most.
  const gaps = due.slice(1).map((ms, index) => (ms - (due[index] ?? 0)) / 1_000);
  expect(Math.max(...gaps)).toBeLessThan(13);
  const seconds = gaps.reduce((sum, gap) => sum + gap, 1);
  expect(due.length / seconds).toBeGreaterThan(0.5);
  expect(spawned).toHaveLength(3 + ROUNDS);
  await waitUntil("all have left", async () => {
    const left = await pool.query(
      "select from pg_stat_activity where datname = current_database() and application_name <> 'test' and backend_type = 'client backend'",
    );
    return left.rows.length === 0;
  });
  await database.drop();
});
