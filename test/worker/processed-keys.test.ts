import { sql } from "drizzle-orm";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createWorker, type HandlerFor } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({
    charge: defineJob({
      payload: z.object({ orderId: z.string() }),
      idempotencyKey: ({ orderId }) => orderId,
      maxAttempts: 2,
      backoff: fixed({ delayMs: 0 }),
    }),
    plain: defineJob({ payload: z.object({}) }),
  }),
});
type Charge = HandlerFor<typeof queue, "charge", Room["db"]>;

let room: Room;
beforeAll(async () => {
  room = await openRoom();
  await room.rows("create table effects (job_id bigint)");
});
afterEach(async () => {
  await room.clear();
  await room.rows("truncate effects");
});
afterAll(() => room.close());

const workerWith = (charge: Charge, done: "keep" | 0 = "keep") =>
  createWorker({
    queue,
    db: room.db,
    handlers: { charge, plain: () => {} },
    pollIntervalMs: 50,
    retention: { done },
    instrumentation: room.spy.listener,
  });

const keys = () =>
  room.rows("select name, idempotency_key as key, job_id::int as job from queue_processed_keys");

test("a job whose key is processed completes without running its handler, and the event says so", async () => {
  let runs = 0;
  await using worker = workerWith(() => {
    runs += 1;
  });
  const { id } = await queue.enqueueNow(room.db, "charge", { orderId: "o1" });
  await room.rows(
    "insert into queue_processed_keys (name, idempotency_key, job_id) values ('charge', 'o1', 4711)",
  );
  await worker.start();

  const event = await room.spy.next("job.done");

  expect(event).toMatchObject({ jobId: id, by: "already_processed" });
  expect(runs).toBe(0);
  expect(room.spy.all("job.started")).toEqual([]);
  expect(await room.job(id)).toMatchObject({ status: "done", outcome: "done" });
  expect(await keys()).toEqual([{ name: "charge", key: "o1", job: 4711 }]);
});

test("a key whose time has run out does not count, and is taken over", async () => {
  await using worker = workerWith(() => {});
  const { id } = await queue.enqueueNow(room.db, "charge", { orderId: "o1" });
  await room.rows(
    `insert into queue_processed_keys (name, idempotency_key, job_id, expires_at)
     values ('charge', 'o1', 4711, now() - interval '1 second')`,
  );
  await worker.start();
  expect(await room.spy.next("job.done")).toMatchObject({ jobId: id, by: "handler" });
  expect(await keys()).toEqual([{ name: "charge", key: "o1", job: id }]);
});

test.each(["keep", 0] as const)(
  "a handler without commit has its key recorded with the completion (done: %s)",
  async (done) => {
    await using worker = workerWith(() => {}, done);
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "charge", { orderId: "o1" });
    const { id: plainId } = await queue.enqueueNow(room.db, "plain", {});
    await room.spy.next("job.done");
    await room.spy.next("job.done");
    expect(await keys()).toEqual([{ name: "charge", key: "o1", job: id }]);
    const rows = await room.rows<{ id: number }>("select id::int from queue_jobs order by id");
    expect(rows.map((row) => row.id)).toEqual(done === 0 ? [] : [id, plainId]);
  },
);

test("key and completion are written by one transaction", async () => {
  await using worker = workerWith(() => {});
  await worker.start();
  await queue.enqueueNow(room.db, "charge", { orderId: "o1" });
  await room.spy.next("job.done");
  const transactions = await room.rows(
    "select xmin::text from queue_jobs union select xmin::text from queue_processed_keys",
  );
  expect(transactions).toHaveLength(1);
});

test("a failed job's key is not recorded", async () => {
  await using worker = workerWith(() => {
    throw new Error("no");
  });
  await worker.start();
  const { id } = await queue.enqueueNow(room.db, "charge", { orderId: "o1" });
  await room.spy.next("job.failed");
  expect(await keys()).toEqual([]);
  expect(await room.job(id)).toMatchObject({ status: "failed" });
});

test("a commit that finds its key processed meanwhile rolls back and settles the job as done", async () => {
  await using worker = workerWith(async ({ job, payload, commit }) => {
    await room.rows(
      "insert into queue_processed_keys (name, idempotency_key, job_id) values ('charge', $1, 4711)",
      [payload.orderId],
    );
    await commit(async (tx) => {
      await tx.execute(sql`insert into effects values (${job.id})`);
    });
  });
  await worker.start();
  const { id } = await queue.enqueueNow(room.db, "charge", { orderId: "o1" });

  expect(await room.spy.next("job.done")).toMatchObject({ jobId: id, by: "already_processed" });

  expect(await room.rows("select * from effects")).toEqual([]);
  expect(await room.job(id)).toMatchObject({ status: "done", attempts: 1, errors: [] });
  expect(await keys()).toEqual([{ name: "charge", key: "o1", job: 4711 }]);
});
