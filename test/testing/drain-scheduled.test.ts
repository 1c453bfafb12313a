import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs, fixed, SnoozeJob } from "drizzle-queue";
import { drainJobs } from "drizzle-queue/testing";
import { defineHandlers } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { drizzleExecutor } from "../../src/queries/executor.js";
import { makeDue } from "../../src/queries/make-due.js";
import { createEmptyDatabase } from "../support/database.js";
import { openRoom, type Room } from "../worker/room.js";

const payload = z.object({ n: z.number().default(0) });
const settings = { payload, backoff: fixed({ delayMs: 60_000 }), maxAttempts: 2 };
const queue = createQueue({
  jobs: defineJobs({
    snooze: defineJob(settings),
    repeat: defineJob(settings),
    error: defineJob(settings),
  }),
});

let room: Room;
let ran: string[] = [];
beforeAll(async () => {
  room = await openRoom();
});
afterEach(async () => {
  ran = [];
  await room.clear();
});
afterAll(() => room.close());

const handlers = defineHandlers(queue, {
  snooze() {
    ran.push("snooze");
    throw new SnoozeJob({ delayMs: 60_000 });
  },
  repeat({ commit }) {
    ran.push("repeat");
    return commit((tx) => queue.enqueue(tx, "repeat", {}, { delayMs: 60_000 }));
  },
  error({ job }) {
    ran.push(`error ${job.attempt}`);
    throw new Error("never");
  },
});
const drain = (db = room.db, more: object = {}) =>
  drainJobs({ queue, db, handlers, runsScheduled: true, ...more });

describe.each(["snooze", "repeat"] as const)(
  "a job that puts itself off by a %s runs once",
  (name) => {
    test.each([1, 2, 3])("on a pool that has not connected yet (%i)", async () => {
      await queue.enqueueNow(room.db, name as "snooze", {});
      const pool = new pg.Pool({ connectionString: room.url, max: 2 });
      await drain(drizzle(pool));
      await pool.end();
      expect(ran).toEqual([name]);
    });

    test("on a pool whose one connection is busy when it begins", async () => {
      await queue.enqueueNow(room.db, name as "snooze", {});
      const pool = new pg.Pool({ connectionString: room.url, max: 1 });
      const busy = await pool.connect();
      setTimeout(() => busy.release(), 150);
      await drain(drizzle(pool));
      await pool.end();
      expect(ran).toEqual([name]);
    });
  },
);

test("a pool that has no connection to spare is named, and no worker starts when it has", async () => {
  const { id } = await queue.enqueueNow(room.db, "snooze", {});
  const pool = new pg.Pool({ connectionString: room.url, max: 1 });
  const busy = await pool.connect();
  await expect(drain(drizzle(pool), { timeoutMs: 50 })).rejects.toThrow(
    "or the pool has no free connection",
  );
  busy.release();
  await pool.end();
  expect(ran).toEqual([]);
  expect((await room.job(id))?.status).toBe("queued");
});

test("missing tables are told as a worker tells them", async () => {
  const database = await createEmptyDatabase();
  await expect(drain(drizzle(database.pool))).rejects.toMatchObject({ code: "TABLES_MISSING" });
  await database.drop();
});

test("a job in a paused queue keeps its time", async () => {
  const { id } = await queue.enqueueNow(room.db, "snooze", {}, { delayMs: 3_600_000 });
  const before = await room.job(id);
  await room.rows("insert into queue_controls (queue, paused_at) values ('default', now())");
  await drain();
  expect(ran).toEqual([]);
  expect(await room.job(id)).toEqual(before);
});

test("a job that was claimed since it errored is not made due as a retry", async () => {
  const { id } = await queue.enqueueNow(room.db, "error", {});
  const { retrying } = await drain(room.db, { runsScheduled: false });
  expect(retrying).toMatchObject([{ id }]);
  const retry = (leaseVersion: number) =>
    makeDue(queue.tables)(drizzleExecutor(room.db), {
      queues: ["default"],
      names: ["error"],
      retries: [
        { id: id + 1, leaseVersion },
        { id, leaseVersion },
      ],
    });
  const { leaseVersion = 0 } = (await room.job(id)) ?? {};
  expect(await retry(leaseVersion - 1)).toBe(0);
  expect(await retry(leaseVersion)).toBe(1);
});
