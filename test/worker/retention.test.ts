import { sql } from "drizzle-orm";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker, type HandlerFor } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({
    plain: defineJob({ payload: z.object({}), maxAttempts: 1 }),
    measured: defineJob({ payload: z.object({}), result: z.object({ pages: z.number() }) }),
    committed: defineJob({ payload: z.object({}) }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
  await room.rows(
    "create table reports (id int, job_id bigint not null references queue_jobs (id))",
  );
});
afterEach(() => room.clear());
afterAll(() => room.close());

const deletingWorker = (plain: HandlerFor<typeof queue, "plain", Room["db"]> = () => {}) =>
  createWorker({
    queue,
    db: room.db,
    concurrency: 50,
    retention: { done: 0 },
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
    handlers: {
      plain,
      measured: () => ({ pages: 3 }),
      committed: async ({ commit }) => {
        await commit(async (tx) => {
          await tx.execute(sql`select 1`);
        });
      },
    },
  });

const enqueueTwenty = (name: "plain" | "measured" | "committed") =>
  room.db.transaction((tx) =>
    queue.enqueueMany(
      tx,
      Array.from({ length: 20 }, () => ({ name, payload: {} })),
    ),
  );

const left = () => room.rows("select id::int, status from queue_jobs order by id");
const doneEvents = () => room.spy.all("job.done").length;

test("done: 0 deletes a row in the statement that completes its job", async () => {
  await using worker = deletingWorker();
  await worker.start();
  const { id } = await queue.enqueueNow(room.db, "plain", {});
  await room.spy.next("job.done");
  // The event follows the answer to that one statement: there is nothing left to come.
  expect(await room.job(id)).toBeUndefined();
});

test("done: 0 keeps failed jobs", async () => {
  await using worker = deletingWorker(() => {
    throw new Error("no");
  });
  await worker.start();
  const { id } = await queue.enqueueNow(room.db, "plain", {});
  await room.spy.next("job.failed");
  expect(await left()).toEqual([{ id, status: "failed" }]);
});

test("done: 0 deletes the row of a committed job soon afterwards", async () => {
  await using worker = deletingWorker();
  await worker.start();
  await enqueueTwenty("committed");
  await waitUntil("all rows are gone", async () => (await left()).length === 0);
  await waitUntil("all are done", () => doneEvents() === 20);
  expect(room.spy.all("job.done").map(({ by }) => by)).toEqual(Array(20).fill("handler"));
});

test.each(["plain", "committed"] as const)(
  "a done %s row that an app's foreign key holds is kept, and its neighbours go",
  async (name) => {
    await using worker = deletingWorker();
    const jobs = await enqueueTwenty(name);
    const held = jobs[7]?.id ?? 0;
    await room.rows("insert into reports values (1, $1)", [held]);
    await worker.start();
    await waitUntil("all are done", () => doneEvents() === 20);
    await waitUntil("only the held row is left", async () => (await left()).length === 1);
    expect(await left()).toEqual([{ id: held, status: "done" }]);
    expect(await room.job(held)).toMatchObject({ status: "done", outcome: "done", lockedBy: null });
    expect(room.spy.all("attempt.errored")).toEqual([]);
    expect(room.spy.all("lease.lost")).toEqual([]);
  },
);

test("a row that is kept for a foreign key keeps its result too", async () => {
  await using worker = deletingWorker();
  const [job] = await enqueueTwenty("measured");
  await room.rows("insert into reports values (1, $1)", [job?.id]);
  await worker.start();
  await waitUntil("all are done", () => doneEvents() === 20);
  expect(await left()).toEqual([{ id: job?.id, status: "done" }]);
  expect(await room.job(job?.id ?? 0)).toMatchObject({ status: "done", result: { pages: 3 } });
});
