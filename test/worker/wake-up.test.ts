import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker, type Worker } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy, type EventSpy } from "../support/events.js";
import { createTcpProxy } from "../support/tcp-proxy.js";
import { waitUntil } from "../support/wait-until.js";

/** No poll falls into a test: whatever starts was woken. */
const NEVER = 60_000;

const jobs = defineJobs({ note: defineJob({ payload: z.object({ n: z.number() }) }) });

let database: TestDatabase;
let db: ReturnType<typeof drizzle>;
let spy: EventSpy;
let queue: ReturnType<typeof createQueue<typeof jobs>>;
let workers: Worker[];

/** The worker's connections in the order of their making; the listening one is the last here. */
const clients: pg.Client[] = [];
class RecordedClient extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super(config);
    if (config?.application_name === "drizzle-queue listen") clients.push(this);
  }
}
let pool: pg.Pool;

beforeAll(async () => {
  database = await createDatabase();
  pool = new pg.Pool({ connectionString: database.url, Client: RecordedClient });
  db = drizzle(pool);
});

beforeEach(() => {
  workers = [];
  spy = createEventSpy();
  queue = createQueue({ jobs, instrumentation: spy.listener });
});

afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.stop({ gracePeriodMs: 0 })));
  await database.pool.query("truncate queue_jobs, queue_workers");
});

afterAll(async () => {
  await pool.end();
  await database.drop();
});

/** Starts a worker that polls once a minute, and waits until its polls after the start are over. */
async function startWaiting(
  handler: (n: number) => Promise<void> | void = () => undefined,
  concurrency = 10,
): Promise<Worker> {
  const worker = createWorker({
    queue,
    db,
    concurrency,
    pollIntervalMs: NEVER,
    handlers: { note: ({ payload }) => handler(payload.n) },
  });
  workers.push(worker);
  await worker.start();
  await untilQuiet(worker);
  return worker;
}

/** Lets one part of a test wait for another. */
function createGate() {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

/** A worker that has just raised its flag polls for a second; then its claims stop. */
async function untilQuiet(worker: Worker): Promise<void> {
  const isQuiet = async () => {
    const { rows } = await database.pool.query<{ quiet: boolean }>(
      `select bool_and(state = 'idle' and state_change < clock_timestamp() - interval '300 ms') as quiet
         from pg_stat_activity
         where datname = current_database() and application_name = 'drizzle-queue main'
           and exists (select from queue_workers where id = $1 and waiting)`,
      [worker.id],
    );
    return rows[0]?.quiet;
  };
  await waitUntil("the worker waits to be woken", isQuiet);
}

const listener = "datname = current_database() and application_name = 'drizzle-queue listen'";

describe("a worker that polls once a minute", () => {
  test("is woken by the commit of an enqueue", async () => {
    await startWaiting();
    await db.transaction(async (tx) => {
      await queue.enqueue(tx, "note", { n: 1 });
      expect(spy.all("job.started")).toEqual([]);
    });
    const committedAt = performance.now();
    await spy.next("job.started", undefined, 2_000);
    expect(performance.now() - committedAt).toBeLessThan(1_000);
  });

  test("is woken again and again, once per commit or more", async () => {
    await startWaiting();
    for (let n = 0; n < 10; n += 1) {
      await db.transaction((tx) => queue.enqueue(tx, "note", { n }));
      await spy.next("job.done", undefined, 2_000);
    }
    expect(spy.all("job.started")).toHaveLength(10);
  });

  test("takes a job at once that was enqueued while all its slots were taken", async () => {
    const finished = createGate();
    const worker = await startWaiting((n) => (n === 1 ? finished.opened : undefined), 1);
    await queue.enqueueNow(db, "note", { n: 1 });
    await spy.next("job.started");
    await waitUntil("it does not ask to be woken", async () => {
      const { rows } = await database.pool.query<{ waiting: boolean }>(
        "select waiting from queue_workers where id = $1",
        [worker.id],
      );
      return rows[0]?.waiting === false;
    });
    finished.open();
    await spy.next("job.done");
    // It claims at once, finds nothing, and nobody notifies before its flag is up again.
    const { id } = await queue.enqueueNow(db, "note", { n: 2 });
    expect((await spy.next("job.done", undefined, 3_000)).jobId).toBe(id);
  });

  test("starts a job that commits right behind another, below its floor", async () => {
    await startWaiting();
    const gate = createGate();
    const enqueued = createGate();
    const late = db.transaction(async (tx) => {
      await queue.enqueue(tx, "note", { n: 1 });
      enqueued.open();
      await gate.opened;
    });
    await enqueued.opened;
    const enqueuedAt = performance.now();
    await waitUntil("a second has passed, the floor's margin", () => {
      return performance.now() - enqueuedAt > 1_500;
    });
    await queue.enqueueNow(db, "note", { n: 2 });
    await spy.next("job.started");
    gate.open();
    await late;
    expect(await spy.next("job.started", undefined, 3_000)).toMatchObject({ attempt: 1 });
  });

  test("wakes five workers with one statement of a thousand jobs", async () => {
    const started = new Set<number>();
    const finished = createGate();
    for (let n = 0; n < 5; n += 1) {
      await startWaiting((job) => {
        started.add(job);
        return finished.opened;
      });
    }
    const many = Array.from({ length: 1_000 }, (_, n) => ({
      name: "note" as const,
      payload: { n },
    }));
    await db.transaction((tx) => queue.enqueueMany(tx, many));
    const committedAt = performance.now();
    await waitUntil("all fifty slots are taken", () => started.size === 50, { timeoutMs: 3_000 });
    expect(performance.now() - committedAt).toBeLessThan(1_000);
    expect(new Set(spy.all("job.claimed").map(({ workerId }) => workerId)).size).toBe(5);
    finished.open();
    await waitUntil("all are done", () => spy.all("job.done").length === 1_000);
  });
});

describe("a worker whose listening session", () => {
  test("is in no transaction, whatever is enqueued, and so keeps no notification from being discarded", async () => {
    const worker = await startWaiting();
    const states = new Set<string>();
    const look = async () => {
      const { rows } = await database.pool.query<{ state: string; start: Date | null }>(
        `select state, xact_start as start from pg_stat_activity where ${listener} and state <> 'active'`,
      );
      for (const { state } of rows) states.add(state);
      return rows;
    };
    for (let n = 0; n < 100; n += 1) {
      await db.transaction(async (tx) => {
        await queue.enqueue(tx, "note", { n });
        await look();
      });
      await look();
    }
    await waitUntil("all are done", () => spy.all("job.done").length === 100);
    await untilQuiet(worker);
    expect([...states]).toEqual(["idle"]);
    // An idle session reads its notifications in a transaction, for a moment.
    await waitUntil("it is in none", async () => {
      const rows = await look();
      return rows.length === 1 && rows[0]?.start === null;
    });
  });

  test("was ended listens again, and looks for what it missed", async () => {
    await startWaiting();
    await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where ${listener}`,
    );
    // Nobody hears this one.
    await queue.enqueueNow(db, "note", { n: 1 });
    await spy.next("job.started", undefined, 5_000);
    expect(await spy.next("connection.lost")).toMatchObject({ role: "listen" });
    expect(await spy.next("connection.restored")).toMatchObject({ role: "listen" });
    await waitUntil("one session listens", async () => {
      const { rowCount } = await database.pool.query(
        `select from pg_stat_activity where ${listener}`,
      );
      return rowCount === 1;
    });
  });

  test("was ended ten times has one session, and still hears", async () => {
    const worker = await startWaiting();
    for (let round = 1; round <= 10; round += 1) {
      const { rows } = await database.pool.query<{ now: string }>(
        "select clock_timestamp()::text as now",
      );
      await database.pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where ${listener}`,
      );
      await untilSeenAfter(worker, rows[0]?.now);
    }
    const { rowCount } = await database.pool.query(
      `select from pg_stat_activity where ${listener}`,
    );
    expect(rowCount).toBe(1);
    await untilQuiet(worker);
    await queue.enqueueNow(db, "note", { n: 1 });
    await spy.next("job.done", undefined, 2_000);
  });

  test("was told to UNLISTEN notices it by itself, listens again and looks", async () => {
    const worker = await startWaiting();
    // As when somebody on the server's side cleans the session.
    await clients.at(-1)?.query("unlisten *");
    await queue.enqueueNow(db, "note", { n: 1 });
    await spy.next("statement.errored", ({ statement }) => statement === "listen", 15_000);
    await spy.next("job.started", undefined, 5_000);
    await untilQuiet(worker);
    const { id } = await queue.enqueueNow(db, "note", { n: 2 });
    expect((await spy.next("job.started", undefined, 1_000)).jobId).toBe(id);
  });

  test("hears nothing any more, though nobody ended it, is replaced within 30 s", {
    timeout: 60_000,
  }, async () => {
    const proxy = await createTcpProxy(database.url);
    const farPool = new pg.Pool({ connectionString: proxy.url });
    let deaf: number | undefined;
    let isSwallowing = false;
    proxy.intercept((chunk, direction, connection) => {
      if (direction === "toServer" && chunk.includes('listen "')) deaf ??= connection.id;
      return isSwallowing && connection.id === deaf ? "drop" : "pass";
    });
    const worker = createWorker({
      queue,
      db: drizzle(farPool),
      pollIntervalMs: NEVER,
      handlers: { note: () => undefined },
    });
    workers.push(worker);
    await worker.start();
    await untilQuiet(worker);
    isSwallowing = true;
    const enqueuedAt = performance.now();
    const { id } = await queue.enqueueNow(db, "note", { n: 1 });
    expect((await spy.next("job.started", undefined, 32_000)).jobId).toBe(id);
    expect(performance.now() - enqueuedAt).toBeLessThan(30_000);
    expect(await spy.next("connection.lost")).toMatchObject({ role: "listen" });
    await worker.stop({ gracePeriodMs: 0 });
    await farPool.end();
    await proxy.close();
  });
});

/** The worker's row is written only over the session that listens. */
async function untilSeenAfter(worker: Worker, instant: string | undefined): Promise<void> {
  await waitUntil(
    "it listens again",
    async () => {
      const sql = "select from queue_workers where id = $1 and seen_at > $2::text::timestamptz";
      return (await database.pool.query(sql, [worker.id, instant])).rowCount === 1;
    },
    { timeoutMs: 8_000 },
  );
}
