import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { waitUntil } from "../support/wait-until.js";
import { openRoom, type Room } from "../worker/room.js";
import { admin } from "./fixture.js";

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

/** A row as a scheduler makes it; times are SQL. */
const insert = (
  name: string,
  { lastDueAt = "now() - interval '1 hour'", pausedAt = "null" } = {},
) =>
  room.rows(
    `insert into queue_schedules (name, last_due_at, paused_at) values ($1, ${lastDueAt}, ${pausedAt})`,
    [name],
  );

interface ScheduleRow {
  readonly name: string;
  readonly last_due_at: Date;
  readonly next_due_at: Date | null;
  readonly last_job_id: string | null;
  readonly paused_at: Date | null;
}
const rowOf = async (name: string) => {
  const [row] = await room.rows<ScheduleRow>("select * from queue_schedules where name = $1", [
    name,
  ]);
  return row;
};

/** Holds the row of a schedule as another transaction does, until `end` says how that ends. */
async function lock(text: string): Promise<{ end(how: "commit" | "rollback"): Promise<void> }> {
  const client = await room.pool.connect();
  await client.query("begin");
  await client.query(text);
  return {
    async end(how) {
      await client.query(how);
      client.release();
    },
  };
}

const oneWaits = () =>
  waitUntil("the call waits for a lock", async () => {
    const waiting = await room.rows(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    return waiting.length === 1;
  });

describe("pausing a schedule", () => {
  test("tells whether it changed anything, and whether there is such a schedule", async () => {
    await insert("nightly");
    await insert("hourly");
    const others = await rowOf("hourly");
    const before = await rowOf("nightly");
    expect(await admin.pauseSchedule(room.db, "nightly")).toBe("paused");
    const paused = await rowOf("nightly");
    expect(paused).toEqual({ ...before, paused_at: expect.any(Date) });
    expect(await admin.pauseSchedule(room.db, "nightly")).toBe("unchanged");
    expect(await rowOf("nightly")).toEqual(paused);
    expect(await admin.pauseSchedule(room.db, "nigthly")).toBe("missing");
    expect(await rowOf("hourly")).toEqual(others);
  });

  test("takes effect with the caller's transaction, or not at all", async () => {
    await insert("nightly");
    const failing = room.db.transaction(async (tx) => {
      expect(await admin.pauseSchedule(tx, "nightly")).toBe("paused");
      expect(await admin.pauseSchedule(tx, "nightly")).toBe("unchanged");
      expect(await rowOf("nightly")).toMatchObject({ paused_at: null });
      throw new Error("no luck");
    });
    await expect(failing).rejects.toThrow("no luck");
    expect(await rowOf("nightly")).toMatchObject({ paused_at: null });
  });

  test("waits for a scheduler that is just enqueueing, and keeps how far that came", async () => {
    await insert("nightly");
    const scheduler = await lock(
      "update queue_schedules set last_due_at = '2026-01-01T02:30:00Z', last_job_id = 7 where name = 'nightly'",
    );
    const answer = admin.pauseSchedule(room.db, "nightly");
    await oneWaits();
    await scheduler.end("commit");
    expect(await answer).toBe("paused");
    expect(await rowOf("nightly")).toMatchObject({
      last_due_at: new Date("2026-01-01T02:30:00Z"),
      last_job_id: "7",
      paused_at: expect.any(Date),
    });
  });

  test.each([
    ["was paused meanwhile", "null", "update queue_schedules set paused_at = now()", "unchanged"],
    ["was resumed meanwhile", "now()", "update queue_schedules set paused_at = null", "paused"],
    ["was deleted meanwhile", "null", "delete from queue_schedules", "missing"],
  ])("of one that %s goes by what its row says in the end", async (_, pausedAt, text, answer) => {
    await insert("nightly", { pausedAt });
    const other = await lock(text);
    const answered = admin.pauseSchedule(room.db, "nightly");
    await oneWaits();
    await other.end("commit");
    expect(await answered).toBe(answer);
    expect(await room.rows("select from queue_schedules where paused_at is not null")).toHaveLength(
      answer === "missing" ? 0 : 1,
    );
  });
});

describe("resuming a schedule", () => {
  test("tells whether it was paused, and passes over what fell into the pause", async () => {
    await insert("nightly");
    await room.rows("update queue_schedules set next_due_at = now(), last_job_id = 7");
    const before = await rowOf("nightly");
    expect(await admin.resumeSchedule(room.db, "nightly")).toBe("unchanged");
    expect(await admin.resumeSchedule(room.db, "nigthly")).toBe("missing");
    expect(await rowOf("nightly")).toEqual(before);

    await admin.pauseSchedule(room.db, "nightly");
    const [clock] = await room.rows<{ now: Date }>(
      "select date_trunc('milliseconds', clock_timestamp()) as now",
    );
    expect(await admin.resumeSchedule(room.db, "nightly")).toBe("resumed");
    const after = await rowOf("nightly");
    expect(after).toEqual({ ...before, next_due_at: null, last_due_at: expect.any(Date) });
    expect(Number(after?.last_due_at)).toBeGreaterThanOrEqual(Number(clock?.now));
    // Whole milliseconds, as a cron pattern has them.
    expect(
      await room.rows(
        "select from queue_schedules where last_due_at = date_trunc('milliseconds', last_due_at) and last_due_at <= now()",
      ),
    ).toHaveLength(1);
    expect(await admin.resumeSchedule(room.db, "nightly")).toBe("unchanged");
  });

  test("never takes it back: what is enqueued once is not again", async () => {
    await insert("ahead", { lastDueAt: "'2100-01-01T00:00:00Z'", pausedAt: "now()" });
    expect(await admin.resumeSchedule(room.db, "ahead")).toBe("resumed");
    expect(await rowOf("ahead")).toMatchObject({
      last_due_at: new Date("2100-01-01T00:00:00Z"),
      paused_at: null,
    });
  });

  test("takes effect with the caller's transaction, or not at all", async () => {
    await insert("nightly", { pausedAt: "now()" });
    const before = await rowOf("nightly");
    const failing = room.db.transaction(async (tx) => {
      expect(await admin.resumeSchedule(tx, "nightly")).toBe("resumed");
      throw new Error("no luck");
    });
    await expect(failing).rejects.toThrow("no luck");
    expect(await rowOf("nightly")).toEqual(before);
  });
});

describe("listing schedules", () => {
  test("has each that a scheduler has seen, by name, with its times", async () => {
    const at = "'2026-01-01T02:30:00Z'";
    await insert("nightly", { lastDueAt: at });
    await insert("hourly", { lastDueAt: at, pausedAt: "'2026-01-02T00:00:00.123Z'" });
    await room.rows(
      "update queue_schedules set next_due_at = '2026-01-02T02:30:00Z', last_job_id = 7 where name = 'nightly'",
    );
    const lastDueAt = new Date("2026-01-01T02:30:00Z");
    expect(await admin.listSchedules(room.db)).toEqual([
      {
        name: "hourly",
        lastDueAt,
        nextDueAt: null,
        lastJobId: null,
        pausedAt: new Date("2026-01-02T00:00:00.123Z"),
      },
      {
        name: "nightly",
        lastDueAt,
        nextDueAt: new Date("2026-01-02T02:30:00Z"),
        lastJobId: 7,
        pausedAt: null,
      },
    ]);
  });

  test.each(["infinity", "-infinity", "294276-01-01T00:00:00Z", "4713-01-01T00:00:00Z BC"])(
    "gives a date for the time %s that somebody wrote by hand",
    async (time) => {
      await insert("odd", { lastDueAt: `'${time}'`, pausedAt: `'${time}'` });
      await room.rows("update queue_schedules set next_due_at = last_due_at");
      const [schedule] = await admin.listSchedules(room.db);
      const dates = [schedule?.lastDueAt, schedule?.nextDueAt, schedule?.pausedAt];
      expect(dates.map((date) => Number.isFinite(Number(date)))).toEqual([true, true, true]);
      expect(await admin.resumeSchedule(room.db, "odd")).toBe("resumed");
    },
  );

  test("does not depend on the session's zone or on how it writes dates and numbers", async () => {
    await insert("nightly", { lastDueAt: "'2026-01-01T02:30:00.123Z'" });
    const pool = new pg.Pool({
      connectionString: room.url,
      options: "-c timezone=Asia/Kathmandu -c datestyle=SQL,DMY -c extra_float_digits=0",
    });
    expect(await admin.listSchedules(drizzle(pool))).toMatchObject([
      { lastDueAt: new Date("2026-01-01T02:30:00.123Z") },
    ]);
    await pool.end();
  });
});

test.each(["", "x".repeat(129), "a\0b", 7])("refuses %j as a schedule's name", async (name) => {
  for (const call of [admin.pauseSchedule, admin.resumeSchedule])
    await expect(call(room.db, name as string)).rejects.toMatchObject({ code: "INVALID_OPTION" });
});

test("a name of 128 bytes is one like any other", async () => {
  const name = "ü".repeat(64);
  await insert(name);
  expect(await admin.pauseSchedule(room.db, name)).toBe("paused");
  expect(await admin.resumeSchedule(room.db, name)).toBe("resumed");
});
