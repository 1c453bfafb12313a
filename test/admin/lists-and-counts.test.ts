import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { JobFilter } from "../../src/admin/index.js";
import { openRoom, type Room } from "../worker/room.js";
import { admin, queue } from "./fixture.js";

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const cursorAt = (at: string) => ({
  status: "failed",
  after: JSON.stringify([["failed", null, null], 1, at, "default", 5]),
});

/** Every page of a list, as an app goes through it. */
async function idsOf(filter: JobFilter): Promise<number[][]> {
  const pages: number[][] = [];
  let after: string | undefined;
  do {
    const page = await admin.listJobs(room.db, { ...filter, after });
    pages.push(page.jobs.map(({ id }) => id));
    after = page.next ?? undefined;
  } while (after !== undefined);
  return pages;
}

const insertEnded = (outcome: string, count: number, name = "watched") =>
  room.rows<{ id: number }>(
    `insert into queue_jobs (queue, name, payload, status, outcome, finished_at)
     select 'default', $3, '{}', $1, $1, now() - (n / 2) * interval '1 microsecond' from generate_series(1, $2::int) as n
     returning id::int as id`,
    [outcome, count, name],
  );

describe("a list", () => {
  test("of queued jobs has them queue by queue in the order of their start, page by page", async () => {
    const late = await queue.enqueueNow(room.db, "watched", {}, { delayMs: 60_000 });
    const mail = await queue.enqueueNow(room.db, "mail", {});
    const soon = await queue.enqueueNow(room.db, "report", { reportId: 1 });
    const first = await queue.enqueueNow(room.db, "watched", {}, { priority: 0 });
    const order = [first, soon, late, mail].map(({ id }) => id);
    expect((await idsOf({ status: "queued" })).flat()).toEqual(order);
    expect((await idsOf({ status: "queued", limit: 1 })).flat()).toEqual(order);
    expect((await idsOf({ status: "queued", name: "watched" })).flat()).toEqual([
      first.id,
      late.id,
    ]);
    expect((await idsOf({ status: "queued", queue: "mails" })).flat()).toEqual([mail.id]);
    expect((await idsOf({ status: "running" })).flat()).toEqual([]);
  });

  test("of failed jobs has the latest first, though their times differ by a microsecond, and no other", async () => {
    const failed = await insertEnded("failed", 25);
    await insertEnded("done", 3);
    const pages = await idsOf({ status: "failed", limit: 10 });
    expect(pages.map((page) => page.length)).toEqual([10, 10, 5]);
    const ids = failed.map(({ id }) => id);
    // Two each have one time; of those the greater number comes first.
    const expected = ids.toSorted((a, b) => {
      const [nthOfA, nthOfB] = [ids.indexOf(a) + 1, ids.indexOf(b) + 1];
      return Math.trunc(nthOfA / 2) - Math.trunc(nthOfB / 2) || b - a;
    });
    expect(pages.flat()).toEqual(expected);
  });

  test("goes on behind 20,000 jobs that do not fit its filter", async () => {
    await insertEnded("failed", 45_000);
    await room.rows(
      "update queue_jobs set name = 'rare' where id = any(array(select id from queue_jobs order by finished_at limit 2))",
    );
    const pages = await idsOf({ status: "failed", name: "rare" });
    expect(pages.map((page) => page.length)).toEqual([0, 0, 2]);
  });

  test("holds jobs that were put off for ever, once, and their time is as far as a Date reaches", async () => {
    for (const at of ["infinity", "-infinity", "0001-01-01"]) {
      await room.rows(
        "insert into queue_jobs (queue, name, payload, available_at) values ('default', 'watched', '{}', $1)",
        [at],
      );
    }
    const { jobs } = await admin.listJobs(room.db, { status: "queued" });
    expect(jobs.map(({ availableAt }) => Number(availableAt))).toEqual([
      -8.64e15,
      Date.parse("0001-01-01T00:00:00Z"),
      8.64e15,
    ]);
    expect((await idsOf({ status: "queued", limit: 1 })).flat()).toEqual(jobs.map(({ id }) => id));
  });

  test.each([
    "2262-04-11T23:47:16.854775Z",
    "9999-12-31T23:59:59.999999Z",
    "9000-01-01T00:00:00.001Z",
    "1969-12-31T23:59:59.999999Z",
    "0001-01-01 00:00:00.000001+00 BC",
    "4713-11-24 00:00:00+00 BC",
    "100000-02-29 12:00:00.000001+00",
    "294246-12-31 23:59:59.999999+00",
  ])(
    "goes through jobs of one time, %s, and no job twice, in any zone and style of dates",
    async (at) => {
      const rows = await room.rows<{ id: number }>(
        `insert into queue_jobs (queue, name, payload, available_at)
       select 'default', 'watched', '{}', $1::timestamptz from generate_series(1, 7) returning id::int as id`,
        [at],
      );
      const pool = new pg.Pool({
        connectionString: room.url,
        options: "-c timezone=Asia/Kathmandu -c datestyle=German",
      });
      const seen: number[] = [];
      let after: string | undefined;
      do {
        const page = await admin.listJobs(drizzle(pool), { status: "queued", limit: 3, after });
        seen.push(...page.jobs.map(({ id }) => id));
        after = seen.length > 7 ? undefined : (page.next ?? undefined);
      } while (after !== undefined);
      await pool.end();
      expect(seen).toEqual(rows.map(({ id }) => id));
    },
  );

  test.each<[string, object]>([
    ["an unknown option", { status: "failed", state: "x" }],
    ["no state", {}],
    ["another state", { status: "dead" }],
    ["a limit of 0", { status: "failed", limit: 0 }],
    ["a limit of 1,001", { status: "failed", limit: 1_001 }],
    ["an empty name", { status: "failed", name: "" }],
    ["a queue that is no text", { status: "failed", queue: 7 }],
    ["a place that it has not given out", { status: "failed", after: "page 2" }],
    ["a time that PostgreSQL does not have", cursorAt("-999999999999999999")],
    ["a time of twenty digits", cursorAt("99999999999999999999")],
    [
      "a place of another list",
      { status: "failed", after: JSON.stringify([["done", null, null], 1, "0", "default", 5]) },
    ],
    [
      "a place with SQL in it",
      { status: "failed", after: '[1,"0\'; drop table queue_jobs","default",5]' },
    ],
  ])("refuses %s before any SQL", async (_, filter) => {
    const db = {
      execute: () => {
        throw new Error("It has sent SQL.");
      },
      selectDistinctOn: () => undefined,
    };
    await expect(admin.listJobs(db, filter as JobFilter)).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
  });
});

describe("counts", () => {
  test("tell by queue and name what waits, since when, what runs, is lost, and failed", async () => {
    await queue.enqueueNow(room.db, "watched", {});
    await queue.enqueueNow(room.db, "watched", {}, { priority: 0 });
    await queue.enqueueNow(room.db, "watched", {}, { delayMs: 60_000 });
    await queue.enqueueNow(room.db, "mail", {}, { runAt: new Date("2001-01-01T00:00:00Z") });
    await insertEnded("failed", 3, "mail");
    await insertEnded("done", 2);
    await room.rows(
      `insert into queue_jobs (queue, name, payload, status, attempts, lease_until)
       values ('default', 'report', '{}', 'running', 1, now() + interval '1 minute'),
         ('default', 'report', '{}', 'running', 1, now() - interval '1 minute')`,
    );
    const none = {
      due: 0,
      oldestDueAt: null,
      scheduled: 0,
      running: 0,
      lost: 0,
      failed: 0,
      isAtLeast: false,
      isPaused: false,
    };
    expect(await admin.countJobs(room.db)).toEqual([
      { ...none, queue: "default", name: "mail", failed: 3 },
      { ...none, queue: "default", name: "report", running: 1, lost: 1 },
      {
        ...none,
        queue: "default",
        name: "watched",
        due: 2,
        scheduled: 1,
        oldestDueAt: expect.any(Date),
      },
      {
        ...none,
        queue: "mails",
        name: "mail",
        due: 1,
        oldestDueAt: new Date("2001-01-01T00:00:00Z"),
      },
    ]);
  });

  test("say so where there is more than they look at", async () => {
    for (let nth = 0; nth < 5; nth += 1) await queue.enqueueNow(room.db, "watched", {});
    await queue.enqueueNow(room.db, "mail", {});
    const counts = await admin.countJobs(room.db, { limit: 3 });
    expect(counts.map(({ queue: of, due, isAtLeast }) => [of, due, isAtLeast])).toEqual([
      ["default", 3, true],
      ["mails", 1, false],
    ]);
  });

  test("of failed jobs say so too, and which queues are paused", async () => {
    await queue.enqueueNow(room.db, "watched", {});
    await insertEnded("failed", 5, "mail");
    await admin.pauseQueue(room.db, "default");
    const counts = await admin.countJobs(room.db, { limit: 3 });
    expect(counts).toMatchObject([
      { name: "mail", failed: 3, isAtLeast: true, isPaused: true },
      { name: "watched", due: 1, isAtLeast: true, isPaused: true },
    ]);
    await admin.resumeQueue(room.db, "default");
    expect(await admin.countJobs(room.db, { limit: 6 })).toMatchObject([
      { name: "mail", failed: 5, isAtLeast: false, isPaused: false },
      { name: "watched", due: 1, isAtLeast: false, isPaused: false },
    ]);
  });

  test("of an empty table are none", async () => {
    expect(await admin.countJobs(room.db)).toEqual([]);
  });
});

test("half a million jobs make no call slow: each reads a bounded number of pages", async () => {
  await room.rows(
    `insert into queue_jobs (queue, name, payload, status, outcome, finished_at)
     select 'default', 'watched', '{}', 'done', 'done', now() - n * interval '1 second' from generate_series(1, 300000) as n`,
  );
  await room.rows(
    `insert into queue_jobs (queue, name, payload) select 'default', 'watched', '{}' from generate_series(1, 200000)`,
  );
  await room.rows("analyze queue_jobs");
  // One session, which tells the server's statistics what it has read before it asks for them.
  const pool = new pg.Pool({ connectionString: room.url, max: 1 });
  const db = drizzle(pool);
  const pagesRead = async (): Promise<number> => {
    await pool.query("select pg_stat_force_next_flush()");
    const { rows } = await pool.query<{ pages: string }>(
      "select heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read as pages from pg_statio_user_tables where relname = 'queue_jobs'",
    );
    return Number(rows[0]?.pages);
  };
  const pagesOf = async (act: () => Promise<unknown>): Promise<number> => {
    const before = await pagesRead();
    await act();
    return (await pagesRead()) - before;
  };
  const read = {
    whole: await pagesOf(() => pool.query("select count(last_error) from queue_jobs")),
    counts: await pagesOf(() => admin.countJobs(db)),
    done: await pagesOf(() => admin.listJobs(db, { status: "done" })),
    queued: await pagesOf(() => admin.listJobs(db, { status: "queued" })),
    running: await pagesOf(() => admin.listJobs(db, { status: "running" })),
  };
  await pool.end();
  // Else nothing was counted.
  expect(read.whole).toBeGreaterThan(5_000);
  expect(read.counts).toBeLessThan(1_000);
  expect(Math.max(read.done, read.queued)).toBeLessThan(100);
  // None of 200,000 open jobs runs: it looks at 20,000 of them, and no further.
  expect(read.running).toBeLessThan(2_000);
});
