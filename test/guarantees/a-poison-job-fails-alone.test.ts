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

test("jobs that were only fetched ahead lose one attempt at most, whatever crashes of another they wait beside", async () => {
  const database = await createDatabase();
  const { pool } = database;
  const script = new URL("./processes/hoarding-worker-process.ts", import.meta.url);
  const env = { DATABASE_URL: database.url };
  const enqueue = (name: "quick" | "poison" | "innocent", count: number) =>
    drizzle(pool).transaction((tx) =>
      queue.enqueueMany(
        tx,
        Array.from({ length: count }, () => ({ name, payload: {} })),
      ),
    );
  const innocents = async (which: string): Promise<number[]> => {
    const { rows } = await pool.query<{ id: string }>(
      `select id from queue_jobs where name = 'innocent' and ${which} order by id`,
    );
    return rows.map(({ id }) => Number(id));
  };
  await enqueue("poison", 1);
  await enqueue("innocent", 40);

  await enqueue("quick", 200);
  expect(await spawnWorkerProcess(script, { env }).exit).toMatchObject({ signal: "SIGKILL" });
  const lost = await innocents("attempts = 1");
  expect(lost.length).toBeGreaterThan(10);
  await waitUntil(
    "every lease has run out",
    async () => (await innocents("lease_until > now()")).length === 0,
  );

  await enqueue("quick", 200);
  const second = spawnWorkerProcess(script, { env });
  await second.waitFor("poisoned");
  // The lost ones may only have a free slot; these may be fetched ahead.
  await enqueue("innocent", 40);
  expect(await second.exit).toMatchObject({ signal: "SIGKILL" });

  const started = second.messages.filter(
    ({ type, attempt }) => type === "innocent" && attempt === 2,
  );
  expect(await innocents("attempts = 2")).toEqual(started.map(({ id }) => id));
  expect(started.length).toBeLessThan(2);
  expect(await innocents("attempts > 2")).toEqual([]);
  await database.drop();
});
