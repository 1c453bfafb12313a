import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker, type Worker } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createDatabaseOn } from "../support/database.js";
import { createEventSpy } from "../support/events.js";
import { startPostgresServer } from "../support/postgres-server.js";
import { createTcpProxy, type TcpProxy } from "../support/tcp-proxy.js";
import { waitUntil } from "../support/wait-until.js";
import { spawnWorkerProcess } from "../support/worker-process.js";
import { bareJobs } from "./bare-worker-process.js";
import { createGate, openRoom, type Room } from "./room.js";

const payload = z.object({ n: z.number() });
const jobs = defineJobs({ note: defineJob({ payload, leaseMs: 1_500 }) });
const notes = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ name: "note" as const, payload: { n } }));

let room: Room;
let workers: Worker[] = [];

beforeAll(async () => {
  room = await openRoom();
});
afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.stop({ gracePeriodMs: 0 })));
  workers = [];
  await room.clear();
});
afterAll(() => room.close());

describe.each(["node-postgres", "postgres.js"])(
  "on %s a worker whose sessions the server ends, with nobody listening to anything",
  (driver) => {
    test("lives through thirty rounds of it, and has each effect once", {
      timeout: 60_000,
    }, async () => {
      await room.rows("drop table if exists effects");
      await room.rows("create table effects (n integer not null)");
      const worker = spawnWorkerProcess(new URL("./bare-worker-process.ts", import.meta.url), {
        env: { DATABASE_URL: room.url, DRIVER: driver },
      });
      await worker.waitFor("started");
      const queue = createQueue({ jobs: bareJobs });
      const items = Array.from({ length: 300 }, (_, n) => ({
        name: "effect" as const,
        payload: { n },
      }));
      await room.db.transaction((tx) => queue.enqueueMany(tx, items));
      const count = async () =>
        (await room.rows<{ count: number }>("select count(*)::int as count from effects"))[0]
          ?.count ?? 0;
      for (let round = 1; round <= 30; round += 1) {
        await room.rows(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and pid <> pg_backend_pid() and application_name <> 'test'`,
        );
        const before = await count();
        await waitUntil("it works again", async () => (await count()) > before || before === 300, {
          timeoutMs: 5_000,
        });
      }
      await waitUntil("all are done", async () => (await count()) === 300, { timeoutMs: 30_000 });
      expect(
        await room.rows("select count(*)::int, count(distinct n)::int as jobs from effects"),
      ).toEqual([{ count: 300, jobs: 300 }]);
      worker.kill("SIGTERM");
      expect(await worker.exit).toEqual({ code: 0, signal: null });
      expect(worker.stderr()).toBe("");
    });
  },
);

describe("a worker whose network swallows everything", () => {
  let proxy: TcpProxy;
  afterEach(() => proxy.close());

  test("tells its handlers in time, and works again once it is healed", {
    timeout: 60_000,
  }, async () => {
    const { spy } = room;
    proxy = await createTcpProxy(room.url);
    const pool = new pg.Pool({ connectionString: proxy.url });
    const queue = createQueue({ jobs, instrumentation: spy.listener });
    const running = createGate();
    const reasons: unknown[] = [];
    workers.push(
      createWorker({
        queue,
        db: drizzle(pool),
        handlers: {
          note: ({ signal, payload: { n } }) =>
            n === 0
              ? new Promise((_, reject) => {
                  signal.addEventListener("abort", () => {
                    reasons.push((signal.reason as { code: string }).code);
                    reject(signal.reason as Error);
                  });
                  running.open();
                })
              : undefined,
        },
      }),
    );
    await workers[0]?.start();
    await queue.enqueueNow(room.db, "note", { n: 0 });
    await running.opened;
    await spy.next("leases.renewed");
    proxy.swallow();
    const swallowedAt = performance.now();
    // Nobody answers: the lease ends here before it ends there.
    expect(await spy.next("lease.lost")).toMatchObject({ noticedBy: "deadline" });
    expect(performance.now() - swallowedAt).toBeLessThan(2_500);
    expect(reasons).toEqual(["LEASE_LOST"]);
    const lost = new Set<string>();
    while (lost.size < 2) lost.add((await spy.next("connection.lost", undefined, 25_000)).role);
    proxy.resume();
    const healedAt = performance.now();
    const { id } = await queue.enqueueNow(room.db, "note", { n: 1 });
    await spy.next("job.done", ({ jobId }) => jobId === id, 15_000);
    expect(performance.now() - healedAt).toBeLessThan(15_000);
    await workers[0]?.stop({ gracePeriodMs: 0 });
    await pool.end();
  });
});

describe("a worker whose app has a pool of one connection", () => {
  test("renews and completes while handlers wait for that one", async () => {
    const { spy } = room;
    const pool = new pg.Pool({ connectionString: room.url, max: 1 });
    const db = drizzle(pool);
    const queue = createQueue({ jobs, instrumentation: spy.listener });
    workers.push(
      createWorker({
        queue,
        db,
        concurrency: 5,
        handlers: {
          note: ({ commit }) =>
            commit(async (tx) => {
              // Longer than a renewal is due after, for all five one after the other longer than a lease.
              await tx.execute("select pg_sleep(0.4)");
            }),
        },
      }),
    );
    await workers[0]?.start();
    await room.db.transaction((tx) => queue.enqueueMany(tx, notes(10)));
    await waitUntil("all are done", () => spy.all("job.done").length === 10, { timeoutMs: 20_000 });
    expect(spy.all("lease.lost")).toEqual([]);
    expect(spy.all("leases.renewed").length).toBeGreaterThan(0);
    await workers[0]?.stop();
    await pool.end();
  });
});

describe("more workers than the server has connections for", () => {
  test("wait for a free one with growing patience, and all jobs are done", {
    timeout: 90_000,
  }, async () => {
    const server = await startPostgresServer({ settings: { max_connections: "20" } });
    const database = await createDatabaseOn(server.url);
    // Three connections are the superuser's, which is this test; the workers have the other 17.
    await database.pool.query("create role app login password 'app'");
    await database.pool.query(
      "grant select, insert, update, delete on all tables in schema public to app",
    );
    const appUrl = new URL(database.url);
    appUrl.username = "app";
    appUrl.password = "app";
    const spy = createEventSpy();
    const queue = createQueue({ jobs, instrumentation: spy.listener });
    const many = Array.from({ length: 10 }, () => {
      const db = drizzle(new pg.Pool({ connectionString: appUrl.href, max: 1 }));
      return createWorker({ queue, db, concurrency: 50, handlers: { note: () => undefined } });
    });
    await Promise.all(many.map((worker) => worker.start()));
    await waitUntil("the server has refused somebody", () =>
      spy.all("connection.lost").some(({ error }) => error.code === "53300"),
    );
    await drizzle(database.pool).transaction((tx) => queue.enqueueMany(tx, notes(2_000)));
    await waitUntil("all jobs are done", () => spy.all("job.done").length === 2_000, {
      timeoutMs: 30_000,
    });
    await server.restart("fast");
    await drizzle(database.pool).transaction((tx) => queue.enqueueMany(tx, notes(500)));
    await waitUntil("all jobs are done again", () => spy.all("job.done").length === 2_500, {
      timeoutMs: 30_000,
    });
    // Ten workers over some seconds, each waiting up to 2 s and a fifth between two tries.
    expect(spy.all("statement.errored").length).toBeLessThan(300);
    await Promise.all(many.map((worker) => worker.stop()));
    await database.drop();
    await server.dispose();
  });
});
