import { sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { createQueue } from "../../src/index.js";
import { createEventSpy } from "../support/events.js";
import { type Fixture, jobs, openFixture, queue } from "./insert-jobs-fixture.js";

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());
beforeEach(() =>
  fixture.database.pool.query("truncate queue_jobs, queue_processed_keys, queue_workers"),
);

test("times are those of the statement, not of the transaction's start", async () => {
  await fixture.db.transaction(async (tx) => {
    await tx.execute(sql`select pg_sleep(0.3)`);
    await queue.enqueue(tx, "report", { id: "a" });
    await queue.enqueueMany(tx, [{ name: "report", payload: { id: "b" } }]);
    const { rows } = await tx.execute<{ late: boolean }>(
      sql`select created_at > now() + interval '0.25 s' and available_at = created_at as late from queue_jobs`,
    );
    expect(rows.map(({ late }) => late)).toEqual([true, true]);
  });
});

test.each(["America/St_Johns", "Asia/Kolkata", "Pacific/Kiritimati"])(
  "runAt means the same in %s",
  async (zone) => {
    const runAt = new Date("2030-06-01T00:30:00Z");
    await fixture.db.transaction(async (tx) => {
      await tx.execute(sql`select set_config('timezone', ${zone}, true)`);
      await queue.enqueue(tx, "report", { id: "a" }, { runAt });
      await queue.enqueueMany(tx, [{ name: "report", payload: { id: "b" }, options: { runAt } }]);
    });
    expect((await fixture.rows()).map((row) => row["available_ms"])).toEqual([
      runAt.getTime(),
      runAt.getTime(),
    ]);
  },
);

test("tables in another place, with a name that looks like a parameter", async () => {
  const elsewhere = createQueue({ jobs, tables: { schema: "my 'own' $2", prefix: "$1_{jobs}" } });
  const { pool } = fixture.database;
  await pool.query("create schema \"my 'own' $2\"");
  for (const table of ["jobs", "processed_keys", "workers"]) {
    await pool.query(
      `create table "my 'own' $2"."$1_{jobs}${table}" (like queue_${table} including all)`,
    );
  }
  await fixture.db.transaction(async (tx) => {
    await elsewhere.enqueue(tx, "report", { id: "a" });
    const first = await elsewhere.enqueue(tx, "keyed", { id: "b" });
    const many = await elsewhere.enqueueMany(tx, [
      { name: "keyed", payload: { id: "b" } },
      { name: "report", payload: { id: "c" } },
    ]);
    expect(many.map(({ created }) => created)).toEqual([false, true]);
    expect(many[0]?.id).toBe(first.id);
  });
  expect(await fixture.rows()).toEqual([]);
  await pool.query("drop schema \"my 'own' $2\" cascade");
});

test("each enqueued job is an event, without its payload", async () => {
  const spy = createEventSpy();
  const observed = createQueue({ jobs, instrumentation: spy.listener });
  const answers = await fixture.db.transaction(async (tx) => [
    await observed.enqueue(tx, "keyed", { id: "secret" }),
    ...(await observed.enqueueMany(tx, [
      { name: "keyed", payload: { id: "secret" } },
      { name: "anything", payload: "secret" },
    ])),
  ]);
  expect(spy.all()).toEqual([
    {
      type: "job.enqueued",
      jobId: answers[0]?.id,
      jobName: "keyed",
      queue: "default",
      created: true,
    },
    {
      type: "job.enqueued",
      jobId: answers[0]?.id,
      jobName: "keyed",
      queue: "default",
      created: false,
    },
    {
      type: "job.enqueued",
      jobId: answers[2]?.id,
      jobName: "anything",
      queue: "misc",
      created: true,
    },
  ]);
});

test("a listener that throws does no harm", async () => {
  const warn = vi.spyOn(console, "warn").mockReturnValue(undefined);
  const event = () => {
    throw new Error("listener");
  };
  const observed = createQueue({ jobs, instrumentation: { event } });
  await fixture.db.transaction(async (tx) => {
    await observed.enqueue(tx, "report", { id: "a" });
    await observed.enqueue(tx, "report", { id: "b" });
  });
  expect(await fixture.rows()).toHaveLength(2);
  expect(warn).toHaveBeenCalledTimes(1);
  warn.mockRestore();
});

test("a job with the largest payload that is allowed", async () => {
  const payload = "x".repeat(65_534);
  await fixture.db.transaction(async (tx) => {
    await queue.enqueue(tx, "anything", payload);
    await expect(queue.enqueue(tx, "anything", `${payload}x`)).rejects.toMatchObject({
      code: "INVALID_PAYLOAD",
    });
    await queue.enqueueMany(tx, [{ name: "anything", payload }]);
  });
  expect(await fixture.rows()).toHaveLength(2);
});
