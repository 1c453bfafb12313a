import { drizzle } from "drizzle-orm/node-postgres";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy } from "../support/events.js";
import { waitUntil } from "../support/wait-until.js";
import { queue } from "./processes/jobs.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterEach(() => database.pool.query("truncate queue_jobs, queue_processed_keys"));
afterAll(() => database.drop());

const enqueue = (count: number) =>
  drizzle(database.pool).transaction((tx) =>
    queue.enqueueMany(
      tx,
      Array.from({ length: count }, (_, n) => ({ name: "work" as const, payload: { n } })),
    ),
  );

const countDone = async () => {
  const { rows } = await database.pool.query("select from queue_jobs where status = 'done'");
  return rows.length;
};

test("a locked candidate does not hold up the next: the claim steps over it", async () => {
  const jobs = await enqueue(20);
  const locker = new pg.Client(database.url);
  await locker.connect();
  await locker.query("begin");
  await locker.query("select from queue_jobs where id = $1 for update", [jobs[0]?.id]);

  await using worker = createWorker({
    queue,
    db: drizzle(database.pool),
    only: ["work"],
    handlers: { work: () => {} },
  });
  await worker.start();
  await waitUntil("the nineteen others are done", async () => (await countDone()) === 19);
  const { rows } = await database.pool.query(
    "select status, attempts from queue_jobs where id = $1",
    [jobs[0]?.id],
  );
  expect(rows).toEqual([{ status: "queued", attempts: 0 }]);

  await locker.query("commit");
  await locker.end();
  await waitUntil("the first one is done too", async () => (await countDone()) === 20);
});

test("a running job whose row is locked holds up neither the renewal nor the settling of its 99 neighbours", async () => {
  const spy = createEventSpy();
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const jobs = await enqueue(100);
  await using worker = createWorker({
    queue,
    db: drizzle(database.pool),
    only: ["work"],
    concurrency: 100,
    instrumentation: spy.listener,
    handlers: { work: () => finished },
  });
  await worker.start();
  for (const _ of jobs) await spy.next("job.started");

  const locker = new pg.Client(database.url);
  await locker.connect();
  await locker.query("begin");
  await locker.query("select from queue_jobs where id = $1 for update", [jobs[50]?.id]);
  await spy.next("leases.renewed", ({ count, busy }) => count === 99 && busy === 1);
  finish();
  await waitUntil("its neighbours are settled", async () => (await countDone()) === 99);
  await locker.query("commit");
  await locker.end();
  await waitUntil("it is settled itself", async () => (await countDone()) === 100);

  const { rows } = await database.pool.query(
    "select distinct attempts, lease_version from queue_jobs",
  );
  expect(rows).toEqual([{ attempts: 1, lease_version: 1 }]);
  expect(spy.all("lease.lost")).toEqual([]);
});
