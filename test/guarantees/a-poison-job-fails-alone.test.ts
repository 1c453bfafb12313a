import { drizzle } from "drizzle-orm/node-postgres";
import { expect, test } from "vitest";
import { createDatabase } from "../support/database.js";
import { waitUntil } from "../support/wait-until.js";
import { spawnWorkerProcess, type WorkerProcess } from "../support/worker-process.js";
import { queue } from "./processes/jobs.js";

test("one job that kills its process, among 200 innocents, fails alone: all innocents are done", async () => {
  const database = await createDatabase();
  const { pool } = database;
  await drizzle(pool).transaction((tx) =>
    queue.enqueueMany(
      tx,
      Array.from({ length: 201 }, (_, n) => ({
        name: n === 10 ? ("poison" as const) : ("innocent" as const),
        payload: {},
      })),
    ),
  );
  const countUnfinished = async () => {
    const { rows } = await pool.query("select from queue_jobs where finished_at is null");
    return rows.length;
  };

  // A supervisor that starts a new process whenever one has died.
  let isOver = false;
  let crashes = 0;
  let current: WorkerProcess | undefined;
  const supervised = (async () => {
    while (!isOver) {
      current = spawnWorkerProcess(
        new URL("./processes/self-killing-worker-process.ts", import.meta.url),
        { env: { DATABASE_URL: database.url } },
      );
      await current.exit;
      if (!isOver) crashes += 1;
    }
  })();
  await waitUntil("every job has ended", async () => (await countUnfinished()) === 0, {
    timeoutMs: 50_000,
    intervalMs: 100,
  });
  isOver = true;
  current?.kill("SIGKILL");
  await supervised;

  expect(crashes).toBe(3);
  const { rows } = await pool.query(
    "select name, status, count(*)::int from queue_jobs group by 1, 2 order by 1",
  );
  expect(rows).toEqual([
    { name: "innocent", status: "done", count: 200 },
    { name: "poison", status: "failed", count: 1 },
  ]);
  await database.drop();
});
