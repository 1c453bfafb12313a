import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker, type Worker } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { openRoom, type Room } from "./room.js";

const payload = z.object({ n: z.number() });

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

async function start(worker: Worker): Promise<void> {
  workers.push(worker);
  await worker.start();
}

describe("a worker", () => {
  test("leaves alone the jobs whose names it does not know, and takes those behind them", async () => {
    const newer = createQueue({
      jobs: defineJobs({ known: defineJob({ payload }), unknown: defineJob({ payload }) }),
    });
    const older = createQueue({
      jobs: defineJobs({ known: defineJob({ payload }) }),
      instrumentation: room.spy.listener,
    });
    const { spy } = room;
    await room.db.transaction((tx) =>
      newer.enqueueMany(
        tx,
        Array.from({ length: 300 }, (_, n) => ({ name: "unknown" as const, payload: { n } })),
      ),
    );
    const { id } = await newer.enqueueNow(room.db, "known", { n: 1 });
    await start(createWorker({ queue: older, db: room.db, handlers: { known: () => undefined } }));
    await spy.next("job.done", ({ jobId }) => jobId === id);
    const left = await room.rows(
      "select status, attempts, lease_version, count(*)::int as count from queue_jobs where name = 'unknown' group by 1, 2, 3",
    );
    expect(left).toEqual([{ status: "queued", attempts: 0, lease_version: 0, count: 300 }]);
  });

  test("serves the queues that it was given and no others", async () => {
    const queue = createQueue({ jobs: defineJobs({ note: defineJob({ payload }) }) });
    const { spy } = room;
    const mine = await queue.enqueueNow(room.db, "note", { n: 1 }, { queue: "mine" });
    await queue.enqueueNow(room.db, "note", { n: 2 }, { queue: "others" });
    await start(
      createWorker({
        queue,
        db: room.db,
        queues: ["mine"],
        instrumentation: spy.listener,
        handlers: { note: () => undefined },
      }),
    );
    expect((await spy.next("job.done")).jobId).toBe(mine.id);
    expect(await room.rows("select status from queue_jobs where queue = 'others'")).toEqual([
      { status: "queued" },
    ]);
  });

  const EXOTIC = [
    "constructor",
    "__proto__",
    "toString",
    'it\'s "quoted", {braced}, \\escaped\\ and $1',
    "'; drop table canary; --",
    "null",
    "-- comment",
    "new\nline\tand tab",
    "emoji 🦜 and ünïcode",
    "%_*?",
  ];

  test.each(EXOTIC)("runs a job called %j from a queue called the same", async (name) => {
    const { spy } = room;
    await room.rows("create table if not exists canary as select 1 as alive");
    const queue = createQueue({
      jobs: defineJobs({ [name]: defineJob({ payload, queue: name, leaseMs: 1_000 }) }),
      instrumentation: spy.listener,
    });
    const ran: number[] = [];
    await start(
      createWorker({
        queue,
        db: room.db,
        handlers: Object.fromEntries([
          [name, ({ payload: { n } }: { payload: { n: number } }) => void ran.push(n)],
        ]),
      }),
    );
    const { id } = await queue.enqueueNow(room.db, name, { n: 7 }, { idempotencyKey: name });
    expect(await spy.next("job.done")).toMatchObject({ jobId: id, jobName: name, queue: name });
    expect(ran).toEqual([7]);
    expect(
      await room.rows("select name, idempotency_key as key from queue_processed_keys"),
    ).toEqual([{ name, key: name }]);
    expect(await room.rows("select alive from canary")).toEqual([{ alive: 1 }]);
  });

  test("keeps two queues apart whose first 63 bytes are the same", async () => {
    const first = `${"q".repeat(63)}1`;
    const second = `${"q".repeat(63)}2`;
    const queue = createQueue({ jobs: defineJobs({ note: defineJob({ payload }) }) });
    const { spy } = room;
    await queue.enqueueNow(room.db, "note", { n: 1 }, { queue: second });
    const mine = await queue.enqueueNow(room.db, "note", { n: 2 }, { queue: first });
    await start(
      createWorker({
        queue,
        db: room.db,
        queues: [first],
        instrumentation: spy.listener,
        handlers: { note: () => undefined },
      }),
    );
    expect((await spy.next("job.done")).jobId).toBe(mine.id);
    expect(await room.rows("select queue from queue_jobs where status = 'queued'")).toEqual([
      { queue: second },
    ]);
  });
});

describe("tables in a schema with an odd name", () => {
  const place = { schema: "My 'odd' schéma; $1 -- {jobs}", prefix: "Q's $2 " };

  test("serve enqueue, worker, wake-up and commit, with an empty search path", async () => {
    const { spy } = room;
    // Made as a migration would make them: the columns are those of the tables in public.
    await room.rows(`create schema "${place.schema}"`);
    for (const table of ["jobs", "processed_keys", "workers", "controls", "schedules"]) {
      await room.rows(
        `create table "${place.schema}"."${place.prefix}${table}" (like public.queue_${table} including all)`,
      );
    }
    const queue = createQueue({
      jobs: defineJobs({ note: defineJob({ payload, idempotencyKey: ({ n }) => String(n) }) }),
      tables: place,
      instrumentation: spy.listener,
    });
    const pool = new pg.Pool({ connectionString: room.url, options: "-c search_path=" });
    const db = drizzle(pool);
    await start(
      createWorker({
        queue,
        db,
        pollIntervalMs: 60_000,
        handlers: { note: ({ commit }) => commit(() => undefined) },
      }),
    );
    const many = [1, 2, 3].map((n) => ({ name: "note" as const, payload: { n } }));
    await db.transaction((tx) => queue.enqueueMany(tx, many));
    const again = await db.transaction((tx) => queue.enqueue(tx, "note", { n: 2 }));
    expect(again.created).toBe(false);
    for (let n = 1; n <= 3; n += 1) await spy.next("job.done", undefined, 3_000);
    expect(await room.rows("select id from public.queue_jobs")).toEqual([]);
    expect(
      await room.rows(
        `select count(*)::int as count from "${place.schema}"."${place.prefix}processed_keys"`,
      ),
    ).toEqual([{ count: 3 }]);
    await pool.end();
  });

  test.each(['with "quotes"', "with a\0byte", "x".repeat(64), ""])(
    "are refused at %j",
    (schema) => {
      expect(() => createQueue({ jobs: defineJobs({}), tables: { schema } })).toThrow(
        /tables\.schema/,
      );
    },
  );
});
