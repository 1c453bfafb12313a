import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker, type Worker } from "drizzle-queue/worker";
import type pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy, type EventSpy } from "../support/events.js";
import { waitUntil } from "../support/wait-until.js";

/**
 * An app's table refers to jobs. Inserting a row of it takes a share lock on
 * the job's row, which lasts until the app's transaction ends.
 */
const jobs = defineJobs({
  note: defineJob({ payload: z.object({ n: z.number() }), leaseMs: 3_000 }),
});

let database: TestDatabase;
let db: ReturnType<typeof drizzle>;
let spy: EventSpy;
let queue: ReturnType<typeof createQueue<typeof jobs>>;
let worker: Worker | undefined;
let childTransaction: pg.PoolClient;

beforeEach(async () => {
  database = await createDatabase();
  db = drizzle(database.pool);
  spy = createEventSpy();
  queue = createQueue({ jobs, instrumentation: spy.listener });
  await database.pool.query(
    "create table notes (job_id bigint not null references queue_jobs (id))",
  );
  childTransaction = await database.pool.connect();
});

afterEach(async () => {
  await worker?.stop({ gracePeriodMs: 0 });
  childTransaction.release(true);
  await database.drop();
});

async function insertChildAndStayOpen(jobId: number): Promise<void> {
  await childTransaction.query("begin");
  await childTransaction.query("insert into notes (job_id) values ($1)", [jobId]);
}

async function statusOf(jobId: number): Promise<string | undefined> {
  const sql = "select status from queue_jobs where id = $1";
  const { rows } = await database.pool.query<{ status: string }>(sql, [jobId]);
  return rows[0]?.status;
}

describe("while an app's transaction holds a child row of a job", () => {
  test("the job is claimed, its lease is renewed, and it is completed", async () => {
    let finish = (): void => undefined;
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    worker = createWorker({ queue, db, handlers: { note: () => finished } });
    const { id } = await queue.enqueueNow(db, "note", { n: 1 });
    await insertChildAndStayOpen(id);
    await worker.start();
    await spy.next("job.started");
    // Three renewals of a third of a lease each: without them it would be over.
    for (let renewal = 1; renewal <= 3; renewal += 1) {
      expect(await spy.next("leases.renewed")).toMatchObject({ count: 1, busy: 0 });
    }
    finish();
    expect(await spy.next("job.done")).toMatchObject({ jobId: id, attempt: 1 });
    expect(await statusOf(id)).toBe("done");
    expect(spy.all("lease.lost")).toEqual([]);
  });

  test("its completion by deletion waits alone; those of others do not wait for it", async () => {
    worker = createWorker({
      queue,
      db,
      retention: { done: 0 },
      handlers: { note: () => undefined },
    });
    const many = Array.from({ length: 100 }, (_, n) => ({ name: "note" as const, payload: { n } }));
    const ids = (await db.transaction((tx) => queue.enqueueMany(tx, many))).map(({ id }) => id);
    const held = ids[50] ?? -1;
    await insertChildAndStayOpen(held);
    await worker.start();
    await waitUntil("the 99 others are gone", () => spy.all("job.done").length === 99);
    expect(await statusOf(held)).toBe("running");
    const { rows } = await database.pool.query<{ id: string }>("select id from queue_jobs");
    expect(rows.map(({ id }) => Number(id))).toEqual([held]);

    await childTransaction.query("commit");
    // The row cannot go any more: it stays, as done.
    expect(await spy.next("job.done", ({ jobId }) => jobId === held)).toMatchObject({ attempt: 1 });
    expect(await statusOf(held)).toBe("done");
  });

  test("its row is deleted after all once that transaction was rolled back", async () => {
    worker = createWorker({
      queue,
      db,
      retention: { done: 0 },
      handlers: { note: () => undefined },
    });
    const { id } = await queue.enqueueNow(db, "note", { n: 1 });
    await insertChildAndStayOpen(id);
    await worker.start();
    // It is renewed while its completion waits, however long that takes.
    await spy.next("leases.renewed");
    expect(await statusOf(id)).toBe("running");
    await childTransaction.query("rollback");
    expect(await spy.next("job.done")).toMatchObject({ jobId: id, attempt: 1 });
    expect(await statusOf(id)).toBeUndefined();
  });
});
