import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { openRoom, type Room } from "./room.js";

const circular: { self?: unknown } = {};
circular.self = circular;

/** Results that JSON or jsonb cannot hold. */
const unstorable: Record<string, () => unknown> = {
  circular: () => circular,
  bigint: () => ({ n: 1n }),
  map: () => new Map([["a", 1]]),
  function: () => () => 1,
  symbol: () => Symbol("s"),
  NaN: () => ({ n: Number.NaN }),
  "toJSON that throws": () => ({
    toJSON() {
      throw new Error("no JSON of me");
    },
  }),
  "getter that throws": () => ({
    get value() {
      throw new Error("no value");
    },
  }),
  NUL: () => ({ text: "a\0b" }),
  "lone surrogate": () => ({ text: "\uD800" }),
  "100 MB": () => ({ text: "x".repeat(100_000_000) }),
};

const queue = createQueue({
  jobs: defineJobs({
    free: defineJob({ payload: z.object({ what: z.string() }) }),
    checked: defineJob({
      payload: z.object({ what: z.string() }),
      result: z.any(),
      maxAttempts: 2,
      backoff: fixed({ delayMs: 0 }),
    }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const returningWorker = () =>
  createWorker({
    queue,
    db: room.db,
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
    handlers: {
      // The types allow nothing to be returned here; plain JavaScript does not ask them.
      free: ({ payload }) => unstorable[payload.what]?.() as undefined,
      checked: ({ payload }) =>
        payload.what === "fine" ? { pages: 3 } : unstorable[payload.what]?.(),
    },
  });

describe("a result that cannot be stored", () => {
  test.each(Object.keys(unstorable))(
    "(%s) is an error of the attempt, as long as others at most",
    async (what) => {
      await using worker = returningWorker();
      await worker.start();
      const { id } = await queue.enqueueNow(room.db, "checked", { what });
      await room.spy.next("job.failed");
      const job = await room.job(id);
      expect(job).toMatchObject({ status: "failed", attempts: 2, result: null });
      expect(job?.errors.map(({ code }) => code)).toEqual(["RESULT_INVALID", "RESULT_INVALID"]);
      expect(room.spy.all("statement.errored")).toEqual([]);
    },
  );

  test.each(Object.keys(unstorable))(
    "(%s) is dropped where no result is declared",
    async (what) => {
      await using worker = returningWorker();
      await worker.start();
      const { id } = await queue.enqueueNow(room.db, "free", { what });
      await room.spy.next("job.done");
      expect(await room.job(id)).toMatchObject({ status: "done", attempts: 1, result: null });
    },
  );
});

test("a result that fits is stored with the completion", async () => {
  await using worker = returningWorker();
  await worker.start();
  const { id } = await queue.enqueueNow(room.db, "checked", { what: "fine" });
  await room.spy.next("job.done");
  expect(await room.job(id)).toMatchObject({ status: "done", result: { pages: 3 } });
});

test("an outcome that the database refuses fails its job alone, and says so", async () => {
  await room.rows(`
    create function refuse() returns trigger language plpgsql as $$
      begin raise exception 'no' using errcode = '23514'; end $$;
    create trigger refuse before update on queue_jobs for each row
      when (new.status = 'done' and new.payload ->> 'what' = 'refused') execute function refuse()`);
  await using worker = returningWorker();
  const jobs = await room.db.transaction((tx) =>
    queue.enqueueMany(
      tx,
      ["fine", "refused", "fine", "fine"].map((what) => ({
        name: "free" as const,
        payload: { what },
      })),
    ),
  );
  await worker.start();
  const { jobId, error } = await room.spy.next("job.failed");
  for (const _ of [1, 2, 3]) await room.spy.next("job.done");
  await room.rows("drop trigger refuse on queue_jobs");

  expect(error.code).toBe("OUTCOME_REFUSED");
  expect(jobId).toBe(jobs[1]?.id);
  expect(await room.job(jobId)).toMatchObject({ status: "failed", attempts: 1 });
  expect(await room.rows("select status from queue_jobs order by id")).toEqual([
    { status: "done" },
    { status: "failed" },
    { status: "done" },
    { status: "done" },
  ]);
});
