import { drizzle } from "drizzle-orm/node-postgres";
import { createScheduler } from "drizzle-queue/scheduler";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createEmptyDatabase } from "../support/database.js";
import { createTcpProxy } from "../support/tcp-proxy.js";
import { waitUntil } from "../support/wait-until.js";
import { at, openScheduleRoom, queue, type ScheduleRoom } from "./scheduler-fixture.js";

const tick = { tick: { job: "note", cron: "* * * * * *", payload: at } } as const;

let room: ScheduleRoom;
beforeAll(async () => {
  room = await openScheduleRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const hasMoreThan = (count: number) => async () => (await room.jobs()).length > count;

describe("a scheduler", () => {
  test("starts once, stops, and starts again", async () => {
    const scheduler = room.create(tick);
    await scheduler.stop();
    await scheduler.start();
    await expect(scheduler.start()).rejects.toMatchObject({ code: "SCHEDULER_STATE" });
    await waitUntil("it runs", hasMoreThan(0));
    const { stop } = scheduler;
    await Promise.all([stop(), stop()]);
    const count = (await room.jobs()).length;
    await scheduler.start();
    await waitUntil("it runs again", hasMoreThan(count));
  });

  test("says what is missing where its tables are not there, and can then be started again", async () => {
    const empty = await createEmptyDatabase();
    const scheduler = createScheduler({ queue, db: drizzle(empty.pool), schedules: tick });
    for (let time = 0; time < 2; time += 1)
      await expect(scheduler.start()).rejects.toMatchObject({
        code: "TABLES_MISSING",
        message: expect.stringContaining('"queue_schedules"'),
      });
    await empty.drop();
  });

  test("refuses a role or database that is not there, with the server's own error", async () => {
    const url = new URL(room.database.url);
    url.pathname = "/nowhere";
    const pool = new pg.Pool({ connectionString: url.href });
    const scheduler = createScheduler({ queue, db: drizzle(pool), schedules: tick });
    const error = await scheduler.start().catch((thrown: unknown) => thrown);
    expect((error as Error).message + String((error as Error).cause)).toContain("nowhere");
    await pool.end();
  });

  test("waits in the background for a database that cannot be reached yet", async () => {
    const proxy = await createTcpProxy(room.database.url);
    proxy.refuse();
    const scheduler = room.create(tick, proxy.url);
    await scheduler.start();
    expect(await room.spy.next("statement.errored")).toMatchObject({
      statement: "look_at_schedules",
    });
    proxy.resume();
    await waitUntil("it runs", hasMoreThan(0));
    await room.clear();
    await proxy.close();
  });

  test("does not start with a role that may not make its row", async () => {
    const role = `reader_${room.database.name}`;
    const { pool } = room.database;
    await pool.query(
      `create role ${role}; grant usage on schema public to ${role}; grant select, update on queue_schedules to ${role}`,
    );
    const url = new URL(room.database.url);
    url.searchParams.set("options", `-c role=${role}`);
    const scheduler = room.create(tick, url.href);
    await expect(scheduler.start()).rejects.toMatchObject({ cause: { code: "42501" } });
    expect(room.spy.all("scheduler.started")).toEqual([]);
    await pool.query(`drop owned by ${role}; drop role ${role}`);
  });

  test("goes on after its connections were lost again and again, and enqueues nothing twice", async () => {
    const proxy = await createTcpProxy(room.database.url);
    await room.create(tick, proxy.url).start();
    for (let time = 0; time < 20; time += 1) {
      await new Promise((done) => setTimeout(done, 50 + Math.random() * 200));
      proxy.cut();
    }
    const count = (await room.jobs()).length;
    await waitUntil("it goes on", hasMoreThan(count + 1));
    const times = (await room.jobs()).map((job) => job.at);
    expect(times).toEqual([...new Set(times)].toSorted());
    await room.clear();
    await proxy.close();
  });

  test("stops in time where the pool has no connection left for it, and takes no turn afterwards", {
    timeout: 60_000,
  }, async () => {
    const pool = new pg.Pool({ connectionString: room.database.url, max: 1 });
    const scheduler = createScheduler({ queue, db: drizzle(pool), schedules: tick });
    await scheduler.start();
    await waitUntil("it runs", hasMoreThan(0));
    const taken = await pool.connect();
    const before = await room.jobs();
    await new Promise((done) => setTimeout(done, 1_500));
    const beganMs = performance.now();
    await scheduler.stop();
    expect(performance.now() - beganMs).toBeLessThan(12_000);
    taken.release();
    // It ends the pool only when whoever waited has had a connection.
    await pool.query("select 1");
    await pool.end();
    expect(await room.jobs()).toEqual(before);
  });

  test.each([
    ["before it moves on", "last_job_id = coalesce", "drop"],
    ["before its commit", "commit", "drop"],
    ["while its commit is answered", "commit", "pass"],
  ] as const)(
    "makes one job of an occurrence whose connection is lost %s",
    async (_, words, fate) => {
      await room.moveBack("yearly", 400 * 86_400);
      const proxy = await createTcpProxy(room.database.url);
      let isTurn = false;
      let isCut = false;
      let unanswered: number | undefined;
      proxy.intercept((chunk, direction, connection) => {
        if (direction === "toClient") return connection.id === unanswered ? "drop" : "pass";
        const text = chunk.toString("latin1");
        // A look commits too, but inserts no job.
        isTurn ||= text.includes('insert into "public"."queue_jobs"');
        if (!isTurn || isCut || !text.includes(words)) return "pass";
        isCut = true;
        // Lost on its way, or carried out and not answered.
        unanswered = connection.id;
        setTimeout(() => connection.cut(), fate === "pass" ? 50 : 0);
        return fate;
      });
      const yearly = { job: "note", cron: "0 0 1 1 *", payload: at } as const;
      await room.create({ yearly }, proxy.url).start();
      await room.spy.next("schedule.errored");
      expect(await room.jobs()).toHaveLength(fate === "pass" ? 1 : 0);
      // The same occurrence is still the latest when it is tried again.
      if (fate === "drop") await room.spy.next("schedule.enqueued");
      else await new Promise((done) => setTimeout(done, 2_500));
      expect(await room.jobs()).toHaveLength(1);
      await room.clear();
      await proxy.close();
    },
  );

  test("gives up a connection that falls silent, and stops in time", {
    timeout: 60_000,
  }, async () => {
    const proxy = await createTcpProxy(room.database.url);
    const scheduler = room.create(tick, proxy.url);
    await scheduler.start();
    await waitUntil("it runs", hasMoreThan(0));
    proxy.swallow();
    // A turn or a look is sent within a second, and never answered.
    await waitUntil(
      "it gives up",
      () => room.spy.all().some(({ type }) => type.endsWith(".errored")),
      { timeoutMs: 20_000 },
    );
    proxy.resume();
    const before = (await room.jobs()).length;
    await waitUntil("it goes on", hasMoreThan(before));
    proxy.swallow();
    await new Promise((done) => setTimeout(done, 1_500));
    const beganMs = performance.now();
    await scheduler.stop();
    expect(performance.now() - beganMs).toBeLessThan(12_000);
    proxy.resume();
    await scheduler.start();
    const count = (await room.jobs()).length;
    await waitUntil("it goes on", hasMoreThan(count));
    const times = (await room.jobs()).map((job) => job.at);
    expect(times).toEqual([...new Set(times)]);
    await room.clear();
    await proxy.close();
  });
});
