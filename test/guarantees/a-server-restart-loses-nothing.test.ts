import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue } from "drizzle-queue";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createDatabaseOn, type TestDatabase } from "../support/database.js";
import { type PostgresServer, startPostgresServer } from "../support/postgres-server.js";
import { waitUntil } from "../support/wait-until.js";
import { spawnWorkerProcess, type WorkerProcess } from "../support/worker-process.js";
import { effectJobs } from "./effect-worker-process.js";

let server: PostgresServer;
let database: TestDatabase;
let processes: WorkerProcess[];
let producerPool: pg.Pool;
let isProducing: boolean;

beforeEach(async () => {
  server = await startPostgresServer();
  database = await createDatabaseOn(server.url);
  // A producer's connection may end between two of its statements; and one that ends while
  // Drizzle sends "begin" is never given back to its pool, hence so many.
  producerPool = new pg.Pool({ connectionString: database.url, max: 50 });
  producerPool.on("error", () => undefined);
  producerPool.on("connect", (client) => client.on("error", () => undefined));
  isProducing = true;
  await database.pool.query("create table orders (n integer primary key)");
  await database.pool.query("create table effects (n integer not null)");
  processes = [1, 2].map(() =>
    spawnWorkerProcess(new URL("./effect-worker-process.ts", import.meta.url), {
      env: { DATABASE_URL: database.url },
    }),
  );
  await Promise.all(processes.map((process) => process.waitFor("started")));
});

afterEach(async () => {
  isProducing = false;
  for (const process of processes) process.kill("SIGTERM");
  await Promise.all(processes.map(({ exit }) => exit));
  // Not awaited: it would wait for the lost ones.
  void producerPool.end();
  await database.drop();
  await server.dispose();
});

async function count(query: string): Promise<number> {
  const { rows } = await database.pool.query<{ count: string }>(query);
  return Number(rows[0]?.count);
}

describe("a server that restarts under load", () => {
  test("loses no acknowledged job, has each effect once, and work goes on by itself", async () => {
    const db = drizzle(producerPool);
    const queue = createQueue({ jobs: effectJobs });
    const acknowledged = new Set<number>();

    /** Each order and its job in one transaction; whoever gets an error does not know, and goes on. */
    const produce = async (first: number): Promise<void> => {
      for (let n = first; isProducing; n += 4) {
        await db
          .transaction(async (tx) => {
            await tx.execute(sql`insert into orders (n) values (${n})`);
            await queue.enqueue(tx, "effect", { n });
          })
          .then(
            () => acknowledged.add(n),
            () => new Promise((resolve) => setImmediate(resolve)),
          );
      }
    };
    const producers = [1, 2, 3, 4].map(produce);
    const recoveredAfterMs: number[] = [];
    for (const mode of ["immediate", "fast", "immediate"] as const) {
      const before = await count("select count(*) from effects");
      await waitUntil(
        "work is under way",
        async () => (await count("select count(*) from effects")) > before + 100,
      );
      await server.restart(mode);
      const restartedAt = performance.now();
      const after = await waitUntil("the server answers", () =>
        count("select count(*) + 1 as count from effects"),
      );
      await waitUntil(
        "a job is done again",
        async () => (await count("select count(*) + 1 as count from effects")) > after,
      );
      recoveredAfterMs.push(performance.now() - restartedAt);
    }
    isProducing = false;
    await Promise.all(producers);
    await waitUntil(
      "every job is final",
      async () => (await count("select count(*) from queue_jobs where finished_at is null")) === 0,
      { timeoutMs: 30_000 },
    );

    const { rows: orders } = await database.pool.query<{ n: number }>(
      "select n from orders order by n",
    );
    const { rows: effects } = await database.pool.query<{ n: number }>(
      "select n from effects order by n",
    );
    expect(effects).toEqual(orders);
    expect(await count("select count(*) from queue_jobs where status = 'done'")).toBe(
      orders.length,
    );
    const kept = new Set(orders.map(({ n }) => n));
    expect([...acknowledged].filter((n) => !kept.has(n))).toEqual([]);
    // The first work after a restart comes long before a lease has run out.
    expect(Math.max(...recoveredAfterMs)).toBeLessThan(3_000);
    expect(processes.map((process) => process.stderr())).toEqual(["", ""]);
  });
});
