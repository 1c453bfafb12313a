import { sql } from "drizzle-orm";
import { createQueue } from "drizzle-queue";
import { createAdmin } from "drizzle-queue/admin";
import { expect, test } from "vitest";
import { createDatabase, createEmptyDatabase } from "../support/database.js";
import { DATABASES, DRIVERS } from "../worker/drivers.js";
import { admin, queue } from "./fixture.js";

test.each(DATABASES)(
  "on $driver each function does its work, in and out of a transaction",
  {
    timeout: 60_000,
  },
  async ({ open }) => {
    const { db, close } = await open();
    const at = new Date("2030-01-01T08:00:00.123Z");
    const payload = { reportId: 1 };
    const { id } = await queue.enqueueNow(db, "report", payload, { runAt: at, priority: 2 });
    expect(await admin.getJob(db, 4_711)).toBeUndefined();
    expect(await admin.getJob(db, id)).toEqual({
      id,
      name: "report",
      queue: "default",
      status: "queued",
      priority: 2,
      attempts: 0,
      maxAttempts: 2,
      expiredLeases: 0,
      idempotencyKey: "report 1",
      createdAt: expect.any(Date),
      availableAt: at,
      startedAt: null,
      finishedAt: null,
      lockedBy: null,
      leaseUntil: null,
      cancelRequestedAt: null,
      lastError: null,
      payload,
      result: null,
      errors: [],
    });
    expect(await admin.countJobs(db)).toMatchObject([
      { queue: "default", name: "report", scheduled: 1 },
    ]);

    expect(await db.transaction((tx) => admin.cancel(tx, id))).toBe("cancelled");
    const page = await admin.listJobs(db, { status: "cancelled", limit: 1 });
    expect(page).toMatchObject({ jobs: [{ id, availableAt: at }], next: expect.any(String) });
    const further = await admin.listJobs(db, {
      status: "cancelled",
      after: page.next ?? undefined,
    });
    expect(further).toEqual({ jobs: [], next: null });

    expect(await db.transaction((tx) => admin.requeueMany(tx, [id, 4_711]))).toEqual([
      { id, answer: "requeued" },
      { id: 4_711, answer: "missing" },
    ]);
    const queued = await admin.listJobs(db, { status: "queued", limit: 1 });
    expect(queued.jobs).toMatchObject([{ id }]);
    expect(
      await admin.listJobs(db, { status: "queued", after: queued.next ?? undefined }),
    ).toMatchObject({ jobs: [] });
    expect(await admin.cancelMany(db, [])).toEqual([]);

    expect(await admin.pauseSchedule(db, "nightly")).toBe("missing");
    expect(await admin.listSchedules(db)).toEqual([]);
    await db.execute(
      sql`insert into queue_schedules (name, last_due_at, next_due_at, last_job_id)
        values ('nightly', '2030-01-01T08:00:00.123Z', 'infinity', 9007199254740991)`,
    );
    expect(await db.transaction((tx) => admin.pauseSchedule(tx, "nightly"))).toBe("paused");
    const schedule = {
      name: "nightly",
      lastDueAt: at,
      nextDueAt: new Date(8.64e15),
      lastJobId: Number.MAX_SAFE_INTEGER,
    };
    expect(await admin.listSchedules(db)).toEqual([{ ...schedule, pausedAt: expect.any(Date) }]);
    expect(await db.transaction((tx) => admin.resumeSchedule(tx, "nightly"))).toBe("resumed");
    expect(await admin.listSchedules(db)).toEqual([
      { ...schedule, nextDueAt: null, pausedAt: null },
    ]);
    await close();
  },
);

test("speaks of the tables of its queue, whatever the session's search path", async () => {
  const database = await createDatabase();
  await database.pool.query(`
    create schema "My $1 queue";
    alter table queue_jobs rename to jobs;
    alter table queue_workers rename to workers;
    alter table queue_controls rename to controls;
    alter table queue_schedules rename to schedules;
    alter table jobs set schema "My $1 queue";
    alter table workers set schema "My $1 queue";
    alter table controls set schema "My $1 queue";
    alter table schedules set schema "My $1 queue";
    insert into "My $1 queue".schedules (name, last_due_at) values ('nightly', now())`);
  const place = { schema: "My $1 queue", prefix: "" };
  const placed = createAdmin({ queue: createQueue({ jobs: queue.jobs, tables: place }) });
  const [driver] = DRIVERS;
  const app = driver?.open(`${database.url}?options=-c%20search_path%3D`);
  if (app === undefined) throw new Error("There is no driver.");
  await database.pool.query(
    `insert into "My $1 queue".jobs (queue, name, payload, status, outcome, finished_at) values ('q', 'gone', '{}', 'failed', 'failed', now())`,
  );
  expect(await placed.countJobs(app.db)).toMatchObject([{ queue: "q", name: "gone", failed: 1 }]);
  const { jobs } = await placed.listJobs(app.db, { status: "failed", name: "gone" });
  const [job] = jobs;
  expect(await placed.requeue(app.db, job?.id ?? 0)).toBe("requeued");
  expect(await placed.cancel(app.db, job?.id ?? 0)).toBe("cancelled");
  expect(await placed.getJob(app.db, job?.id ?? 0)).toMatchObject({ status: "cancelled" });
  expect(await placed.pauseSchedule(app.db, "nightly")).toBe("paused");
  expect(await placed.resumeSchedule(app.db, "nightly")).toBe("resumed");
  expect(await placed.listSchedules(app.db)).toMatchObject([{ name: "nightly", pausedAt: null }]);
  await app.close();
  await database.drop();
});

test("say so where the tables are not there", async () => {
  const database = await createEmptyDatabase();
  const [driver] = DRIVERS;
  const app = driver?.open(database.url);
  if (app === undefined) throw new Error("There is no driver.");
  for (const call of [
    () => admin.countJobs(app.db),
    () => admin.cancel(app.db, 1),
    () => app.db.transaction((tx) => admin.getJob(tx, 1)),
    () => admin.pauseSchedule(app.db, "nightly"),
    () => admin.listSchedules(app.db),
  ])
    await expect(call()).rejects.toMatchObject({ code: "TABLES_MISSING" });
  await app.close();
  await database.drop();
});

test.each<[string, () => unknown]>([
  ["an unknown option", () => createAdmin({ queue, db: {} } as never)],
  ["no queue", () => createAdmin({} as never)],
  ["tables in place of a queue", () => createAdmin({ queue: queue.tables } as never)],
])("refuses %s when it is made", (_, make) => {
  expect(make).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
});

test.each<[string, () => Promise<unknown>]>([
  ["an id that is a text", () => admin.cancel(database(), "1" as never)],
  ["an id of 0", () => admin.getJob(database(), 0)],
  ["a list with one id that is none", () => admin.requeueMany(database(), [1, Number.NaN])],
  ["one id in place of a list", () => admin.cancelMany(database(), 1 as never)],
  ["no database", () => admin.requeue(undefined as never, 1)],
  ["a limit of nothing", () => admin.countJobs(database(), { limit: 0 })],
])("refuses %s before any SQL", async (_, call) => {
  await expect(call()).rejects.toMatchObject({ code: "INVALID_OPTION" });
});

/** One that cannot be spoken to. */
const database = () => ({
  execute: () => {
    throw new Error("It has sent SQL.");
  },
  selectDistinctOn: () => undefined,
});
