import { setTimeout as sleep } from "node:timers/promises";
import { createAdmin } from "drizzle-queue/admin";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { waitUntil } from "../support/wait-until.js";
import { at, openScheduleRoom, queue, type ScheduleRoom } from "./scheduler-fixture.js";

const EACH_SECOND = "* * * * * *";
/** Once a year: nothing of it is due while a test runs, but when it is moved back. */
const NEW_YEAR = "0 0 1 1 *";

let room: ScheduleRoom;
beforeAll(async () => {
  room = await openScheduleRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const row = async (name: string) => {
  const { rows } = await room.database.pool.query(
    "select *, last_job_id::int as job from queue_schedules where name = $1",
    [name],
  );
  return rows[0] as
    | { last_due_at: Date; next_due_at: Date | null; job: number | null; paused_at: Date | null }
    | undefined;
};

describe("a schedule", () => {
  test("begins when it is first seen: nothing before that is enqueued, and its row tells what comes next", async () => {
    const beganMs = Date.now();
    await room.create({ yearly: { job: "note", cron: NEW_YEAR, payload: at } }).start();
    const made = await waitUntil("its row tells", async () => {
      const found = await row("yearly");
      return found?.next_due_at && found;
    });
    expect(Math.abs(made.last_due_at.getTime() - beganMs)).toBeLessThan(5_000);
    expect(made?.next_due_at?.toISOString()).toMatch(/-01-01T00:00:00.000Z$/);
    expect(made?.job).toBeNull();
    expect(await room.jobs()).toEqual([]);
  });

  test("enqueues each occurrence once, in its second, whoever of three schedulers does it", async () => {
    const schedules = { tick: { job: "note", cron: EACH_SECOND, payload: at } } as const;
    const beganMs = Date.now();
    const three = [room.create(schedules), room.create(schedules), room.create(schedules)];
    await Promise.all(three.map((scheduler) => scheduler.start()));
    await waitUntil("four jobs are there", async () => (await room.jobs()).length >= 4);
    await Promise.all(three.map((scheduler) => scheduler.stop()));
    const endedMs = Date.now();
    const jobs = await room.jobs();
    const times = jobs.map((job) => Date.parse(job.at));
    const [firstMs = 0] = times;
    expect(firstMs).toBeGreaterThan(beganMs - 1_000);
    expect(endedMs - firstMs).toBeLessThan(10_000);
    expect(times).toEqual(times.map((_, index) => firstMs + index * 1_000));
    const told = room.spy.all("schedule.enqueued");
    expect(told.map(({ jobId }) => jobId).toSorted((a, b) => a - b)).toEqual(
      jobs.map(({ id }) => id),
    );
    expect(told.every(({ missed, created }) => missed === 0 && created)).toBe(true);
    expect((await row("tick"))?.job).toBe(jobs.at(-1)?.id);
  });

  test("makes up for what it missed by one job, that of the latest occurrence", async () => {
    await room.moveBack("tick", 3_600);
    await room.create({ tick: { job: "note", cron: "*/10 * * * *", payload: at } }).start();
    const [job, ...others] = await room.jobs();
    expect(others).toEqual([]);
    const dueMs = Date.parse(job?.at ?? "");
    expect(dueMs % 600_000).toBe(0);
    expect(Date.now() - dueMs).toBeLessThan(610_000);
    expect(room.spy.all("schedule.enqueued")).toMatchObject([{ schedule: "tick", missed: 5 }]);
    expect((await row("tick"))?.last_due_at.getTime()).toBe(dueMs);
  });

  test("skips what is later than it may be, and goes on", async () => {
    const daily = { job: "note", cron: NEW_YEAR, payload: at, maxLateMs: 60_000 } as const;
    await room.moveBack("yearly", 400 * 86_400);
    await room.create({ yearly: daily }).start();
    expect(await room.jobs()).toEqual([]);
    expect(room.spy.all("schedule.skipped")).toMatchObject([
      { schedule: "yearly", jobName: "note", reason: "late" },
    ]);
    const made = await row("yearly");
    expect(made?.last_due_at.toISOString()).toMatch(/-01-01T00:00:00.000Z$/);
    expect(made?.next_due_at?.getTime()).toBeGreaterThan(Date.now());
  });

  test("skips an occurrence while the job of the one before has not ended, if it is told to", async () => {
    await room.moveBack("yearly", 800 * 86_400);
    const schedules = {
      yearly: { job: "note", cron: NEW_YEAR, payload: at, overlap: "skip" },
    } as const;
    const first = room.create(schedules);
    await first.start();
    await first.stop();
    const [job] = await room.jobs();
    await room.moveBack("yearly", 400 * 86_400);
    const second = room.create(schedules);
    await second.start();
    await second.stop();
    expect(room.spy.all("schedule.skipped")).toMatchObject([{ reason: "overlap" }]);
    expect((await row("yearly"))?.job).toBe(job?.id);
    await room.database.pool.query(
      "update queue_jobs set status = 'done', outcome = 'done', finished_at = now()",
    );
    await room.moveBack("yearly", 400 * 86_400);
    await room.create(schedules).start();
    expect(await room.jobs()).toHaveLength(2);
  });

  test("allows an overlap where nothing is said", async () => {
    const schedules = { yearly: { job: "note", cron: NEW_YEAR, payload: at } } as const;
    for (let time = 0; time < 2; time += 1) {
      await room.moveBack("yearly", 400 * 86_400);
      const scheduler = room.create(schedules);
      await scheduler.start();
      await scheduler.stop();
    }
    expect(await room.jobs()).toHaveLength(2);
  });

  test("enqueues nothing while it is paused", async () => {
    const admin = createAdmin({ queue });
    await room.create({ tick: { job: "note", cron: EACH_SECOND, payload: at } }).start();
    await waitUntil("it runs", async () => (await room.jobs()).length > 0);
    expect(await admin.pauseSchedule(room.db, "tick")).toBe("paused");
    const before = await room.jobs();
    await sleep(2_500);
    expect(await room.jobs()).toEqual(before);
    const resumedMs = Date.now();
    expect(await admin.resumeSchedule(room.db, "tick")).toBe("resumed");
    await waitUntil("it goes on", async () => (await room.jobs()).length > before.length);
    // Nothing is made up for: the next one is of the time after that.
    expect(Date.parse((await room.jobs())[before.length]?.at ?? "")).toBeGreaterThan(resumedMs);
    expect(room.spy.all("schedule.enqueued").every(({ missed }) => missed === 0)).toBe(true);
  });

  test("passes its options on, and names the job that had its key before", async () => {
    await room.moveBack("keyed", 400 * 86_400);
    const payload = () => ({ day: `${Math.random()}` });
    const options = { priority: 1, queue: "others", maxAttempts: 3, idempotencyKey: null } as const;
    await room.create({ keyed: { job: "keyed", cron: NEW_YEAR, payload, options } }).start();
    const { rows } = await room.database.pool.query(
      "select priority, queue, max_attempts, idempotency_key from queue_jobs",
    );
    expect(rows).toEqual([
      { priority: 1, queue: "others", max_attempts: 3, idempotency_key: null },
    ]);

    const byDay = ({ dueAt }: { dueAt: Date }) => ({ day: dueAt.toISOString() });
    const schedules = { other: { job: "keyed", cron: NEW_YEAR, payload: byDay } } as const;
    for (let time = 0; time < 2; time += 1) {
      await room.moveBack("other", 400 * 86_400);
      const scheduler = room.create(schedules);
      await scheduler.start();
      await scheduler.stop();
    }
    const [first, second] = room.spy.all("schedule.enqueued").slice(1);
    expect([first?.created, second?.created]).toEqual([true, false]);
    expect(second?.jobId).toBe(first?.jobId);
  });

  test("whose key another transaction holds is given up after a second, and holds up the others no longer", async () => {
    const byTick = ({ dueAt }: { dueAt: Date }) => ({ day: dueAt.toISOString().slice(0, 4) });
    await room.moveBack("held", 400 * 86_400);
    const [year = ""] = new Date(Date.now()).toISOString().split("-");
    let release = (): void => {};
    const holding = room.db.transaction(async (tx) => {
      await queue.enqueue(tx, "keyed", { day: year });
      await new Promise<void>((resolve) => {
        release = resolve;
      });
    });
    await waitUntil("the key is held", async () => {
      const { rows } = await room.database.pool.query(
        "select from pg_stat_activity where datname = current_database() and state = 'idle in transaction'",
      );
      return rows.length > 0;
    });
    await room
      .create({
        held: { job: "keyed", cron: NEW_YEAR, payload: byTick },
        tick: { job: "note", cron: EACH_SECOND, payload: at },
      })
      .start();
    expect(await room.spy.next("schedule.errored")).toMatchObject({
      schedule: "held",
      error: { code: "55P03" },
    });
    await waitUntil("the other goes on", async () => (await room.jobs()).length >= 2);
    release();
    await holding;
    expect(
      await room.spy.next("schedule.enqueued", (event) => event.schedule === "held"),
    ).toMatchObject({ created: false });
  });

  test("that errors is tried again and holds up no other", async () => {
    let isBroken = true;
    const payload = (occurrence: { readonly dueAt: Date }) => {
      if (isBroken && occurrence.dueAt.getTime() < Date.now()) throw new Error("broken");
      return at(occurrence);
    };
    await room.moveBack("broken", 400 * 86_400);
    await room.moveBack("whole", 400 * 86_400);
    await room
      .create({
        broken: { job: "note", cron: NEW_YEAR, payload },
        whole: { job: "note", cron: NEW_YEAR, payload: at },
      })
      .start();
    expect(await room.jobs()).toHaveLength(1);
    const errored = await room.spy.next("schedule.errored");
    expect(errored).toMatchObject({ schedule: "broken", error: { message: "broken" } });
    expect(errored.retryInMs).toBeGreaterThanOrEqual(1_000);
    isBroken = false;
    await waitUntil("both are there", async () => (await room.jobs()).length === 2);
  });
});
