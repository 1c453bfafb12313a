import { sql } from "drizzle-orm";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker, type Retention } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { openRoom, type Room } from "./room.js";

const payload = z.object({ key: z.string() });
const idempotencyKey = ({ key }: z.infer<typeof payload>) => key;
const queue = createQueue({
  jobs: defineJobs({
    returned: defineJob({ payload, idempotencyKey }),
    committed: defineJob({ payload, idempotencyKey }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const startWorker = async (retention?: Retention) => {
  const worker = createWorker({
    queue,
    db: room.db,
    ...(retention !== undefined && { retention }),
    instrumentation: room.spy.listener,
    handlers: {
      returned: () => undefined,
      committed: async ({ commit }) => {
        await commit(async (tx) => {
          await tx.execute(sql`select 1`);
        });
      },
    },
  });
  await worker.start();
  return worker;
};

/** Jobs that ended so many days ago, in each of the three ways. */
const endedJobs = (days: number, of = 1) =>
  room.rows(
    `insert into queue_jobs (queue, name, payload, status, outcome, finished_at)
     select 'elsewhere', outcome || ' for ' || $1::float8, '{}', outcome, outcome, now() - $1::float8 * interval '1 day'
     from unnest(array['done', 'failed', 'cancelled']) as outcome, generate_series(1, $2::int)`,
    [days, of],
  );

const left = async () =>
  (await room.rows<{ name: string }>("select name from queue_jobs order by id")).map(
    ({ name }) => name,
  );
const prunedJobs = () =>
  room.spy.all("jobs.pruned").map(({ outcome, count }) => `${count} ${outcome}`);

describe("without settings", () => {
  test("done jobs are kept for 7 days, failed and cancelled ones for 30", async () => {
    await endedJobs(6.9);
    await endedJobs(7.1);
    await endedJobs(30.1);
    await using _ = await startWorker();
    await waitUntil("all three kinds were pruned", () => prunedJobs().length === 3);
    expect(prunedJobs()).toEqual(["2 done", "1 failed", "1 cancelled"]);
    expect(await left()).toEqual([
      "done for 6.9",
      "failed for 6.9",
      "cancelled for 6.9",
      "failed for 7.1",
      "cancelled for 7.1",
    ]);
  });

  test("no processed key expires", async () => {
    await using _ = await startWorker();
    await queue.enqueueNow(room.db, "returned", { key: "a" });
    await room.spy.next("job.done");
    expect(await room.rows("select expires_at from queue_processed_keys")).toEqual([
      { expires_at: null },
    ]);
  });
});

test('"keep" keeps for ever', async () => {
  await endedJobs(1_000);
  await room.rows(
    "insert into queue_processed_keys (name, idempotency_key, job_id, expires_at) values ('x', 'y', 1, now())",
  );
  await using _ = await startWorker({ done: "keep", failed: "keep", cancelled: "keep" });
  // The last of what a pass looks at: whatever it was to delete before is gone.
  await room.spy.next("processed_keys.pruned");
  expect(await left()).toHaveLength(3);
});

test("each kind has its own time", async () => {
  await endedJobs(2);
  await using _ = await startWorker({ failed: { days: 1.5 }, cancelled: { days: 2.5 } });
  await room.spy.next("jobs.pruned");
  expect(await left()).toEqual(["done for 2", "cancelled for 2"]);
});

test("done: 0 prunes after 7 days what others have kept", async () => {
  await endedJobs(6.9);
  await endedJobs(7.1);
  await using _ = await startWorker({ done: 0 });
  await room.spy.next("jobs.pruned");
  expect(await left()).toEqual(expect.arrayContaining(["done for 6.9", "failed for 7.1"]));
  expect(await left()).not.toContain("done for 7.1");
});

test.each(["returned", "committed"] as const)(
  "a key of a %s job stays taken for as long as it is told, and is pruned then",
  async (name) => {
    await using worker = await startWorker({ done: 0, processedKeys: { days: 3 } });
    const enqueue = () =>
      name === "returned"
        ? queue.enqueueNow(room.db, "returned", { key: "a" })
        : queue.enqueueNow(room.db, "committed", { key: "a" });
    await enqueue();
    await room.spy.next("job.done");
    const days = "extract(epoch from expires_at - processed_at) / 86400";
    expect(await room.rows(`select (${days})::float8 as days from queue_processed_keys`)).toEqual([
      { days: 3 },
    ]);
    await worker.stop();
    await waitUntil("the job's row is gone", async () => (await left()).length === 0);
    expect(await enqueue()).toMatchObject({ created: false });
    await room.rows("update queue_processed_keys set expires_at = now()");
    await worker.start();
    await room.spy.next("processed_keys.pruned");
    expect(await room.rows("select from queue_processed_keys")).toEqual([]);
    expect(await enqueue()).toMatchObject({ created: true });
  },
);

test("a job that a foreign key of the app holds stays, and its neighbours go", async () => {
  await room.rows("create table holders (job_id bigint references queue_jobs)");
  await endedJobs(40, 30);
  await room.rows("insert into holders select id from queue_jobs where id % 30 = 7");
  await using _ = await startWorker();
  await waitUntil("all others are gone", async () => (await left()).length === 3);
  expect(room.spy.all("statement.errored")).toEqual([]);
  await room.rows("drop table holders");
});

test("where the app holds every job it is told so, and nothing else suffers", async () => {
  await room.rows("create table holders (job_id bigint references queue_jobs)");
  await endedJobs(10, 30);
  await room.rows("insert into holders select id from queue_jobs");
  await using _ = await startWorker();
  const errored = await room.spy.next("statement.errored");
  expect(errored).toMatchObject({ statement: "prune", error: { code: "23503" } });
  await queue.enqueueNow(room.db, "returned", { key: "a" });
  await room.spy.next("job.done");
  expect(await left()).toHaveLength(91);
  await room.rows("drop table holders");
});

test("two workers prune 40,000 jobs together while one of them is stopped, and no statement errors", async () => {
  await endedJobs(40, 13_334);
  const [stopped, other] = await Promise.all([startWorker(), startWorker()]);
  await room.spy.next("jobs.pruned");
  const startedMs = performance.now();
  await stopped.stop();
  expect(performance.now() - startedMs).toBeLessThan(2_000);
  await waitUntil("all are gone", async () => (await left()).length === 0, {
    timeoutMs: 20_000,
  });
  await other.stop();
  const counts = room.spy.all("jobs.pruned").map(({ count }) => count);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(40_002);
  expect(Math.max(...counts)).toBeLessThanOrEqual(1_000);
  expect(room.spy.all("statement.errored")).toEqual([]);
});

test.each<[string, unknown, string]>([
  ["a number of days", { done: 7 }, 'retention.done must be "keep", 0 or { days }, got 7.'],
  ["0 for others than done", { failed: 0 }, 'retention.failed must be "keep" or { days }, got 0.'],
  ["no days", { cancelled: {} }, "retention.cancelled.days must be a number of more than 0"],
  ["0 days", { cancelled: { days: 0 } }, "must be a number of more than 0, up to 36500, got 0."],
  ["another unit", { done: { hours: 1 } }, 'retention.done: unknown option "hours"'],
  ["too many days", { processedKeys: { days: 36_501 } }, "up to 36500, got 36501."],
  ["a kind that is not there", { queued: "keep" }, 'retention: unknown option "queued"'],
  ["nothing", null, "retention must be an object, got null."],
])("a retention of %s is refused", (_, retention, message) => {
  expect(() =>
    createWorker({
      queue,
      db: room.db,
      retention: retention as Retention,
      handlers: { returned: () => undefined, committed: () => undefined },
    }),
  ).toThrow(
    expect.objectContaining({
      code: "INVALID_OPTION",
      message: expect.stringContaining(message) as string,
    }),
  );
});
