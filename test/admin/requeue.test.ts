import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { openRoom, type Room } from "../worker/room.js";
import { admin, insertText, queue } from "./fixture.js";

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

async function insert(status: Parameters<typeof insertText>[0]): Promise<number> {
  const [row] = await room.rows<{ id: number }>(insertText(status), [1]);
  return row?.id ?? 0;
}

/** A worker for reports alone, which polls so seldom that only a notification can be what wakes it. */
const reporter = (handler: () => Promise<void>) =>
  createWorker({
    queue,
    db: room.db,
    only: ["report"],
    pollIntervalMs: 60_000,
    instrumentation: room.spy.listener,
    handlers: { report: handler },
  });

describe("requeueing a job", () => {
  test("that failed gives it all its attempts again; its errors and its key stay", async () => {
    let fails = true;
    await using worker = reporter(async () => {
      if (fails) throw new Error("no luck");
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: 1 });
    await room.spy.next("job.failed");
    const failed = await admin.getJob(room.db, id);
    expect(failed).toMatchObject({ status: "failed", attempts: 2 });
    expect(failed?.errors.map(({ attempt, message }) => [attempt, message])).toEqual([
      [1, "no luck"],
      [2, "no luck"],
    ]);

    fails = false;
    expect(await admin.requeue(room.db, id)).toBe("requeued");
    expect(await room.spy.next("job.done")).toMatchObject({
      jobId: id,
      attempt: 1,
      leaseVersion: 3,
    });
    expect(await admin.getJob(room.db, id)).toMatchObject({
      status: "done",
      attempts: 1,
      idempotencyKey: "report 1",
      errors: failed?.errors ?? [],
    });
    expect(await queue.enqueueNow(room.db, "report", { reportId: 1 })).toMatchObject({
      id,
      created: false,
    });
  });

  test("wakes a worker that waits, when the transaction commits", async () => {
    const id = await insert("cancelled");
    await room.rows("update queue_jobs set name = 'report', payload = '{\"reportId\": 1}'");
    await using worker = reporter(async () => {});
    await worker.start();
    await expect.poll(() => room.rows("select from queue_workers where waiting")).toHaveLength(1);
    await room.db.transaction(async (tx) => {
      expect(await admin.requeue(tx, id)).toBe("requeued");
      expect(room.spy.all("job.started")).toEqual([]);
    });
    await room.spy.next("job.done");
  });

  test("clears what its former life has left in the row, but not the fence", async () => {
    const id = await insert("failed");
    await room.rows(
      `update queue_jobs set lease_version = 7, expired_leases = 3, locked_by = 'host:1:a', started_at = now(),
        cancel_requested_at = now(), available_at = now() - interval '1 day'`,
    );
    const before = Date.now();
    expect(await admin.requeue(room.db, id)).toBe("requeued");
    const job = await admin.getJob(room.db, id);
    expect(job).toMatchObject({
      status: "queued",
      attempts: 0,
      expiredLeases: 0,
      lockedBy: null,
      startedAt: null,
      finishedAt: null,
      leaseUntil: null,
      cancelRequestedAt: null,
    });
    expect(Number(job?.availableAt)).toBeGreaterThan(before - 10_000);
    expect(await room.job(id)).toMatchObject({ leaseVersion: 7 });
  });

  test.each([
    ["queued", "open"],
    ["running", "open"],
    ["done", "done"],
  ] as const)("that is %s changes nothing, and answers %s", async (status, answer) => {
    const id = await insert(status);
    const before = await admin.getJob(room.db, id);
    expect(await admin.requeue(room.db, id)).toBe(answer);
    expect(await admin.getJob(room.db, id)).toEqual(before);
  });

  test("that is locked, or not there, hinders no other of the call", async () => {
    const [locked, free] = [await insert("failed"), await insert("failed")];
    const client = await room.pool.connect();
    await client.query("begin");
    await client.query("select from queue_jobs where id = $1 for update", [locked]);
    const answers = await admin.requeueMany(room.db, [4_711, locked, free]);
    await client.query("rollback");
    client.release();
    expect(answers).toEqual([
      { id: 4_711, answer: "missing" },
      { id: locked, answer: "busy" },
      { id: free, answer: "requeued" },
    ]);
  });

  test("by two operators at once is done once", async () => {
    const ids = await Promise.all(Array.from({ length: 50 }, () => insert("failed")));
    const [one, other] = await Promise.all([
      admin.requeueMany(room.db, ids),
      admin.requeueMany(room.db, ids.toReversed()),
    ]);
    const both = [...one, ...other].map(({ answer }) => answer);
    expect(both.filter((answer) => answer === "requeued")).toHaveLength(50);
    expect(both.filter((answer) => answer === "open")).toHaveLength(50);
  });

  test("in numbers that no statement takes at once answers for each, in its order", async () => {
    const rows = await room.rows<{ id: number }>(insertText("failed"), [2_500]);
    const ids = rows.map(({ id }) => id).toReversed();
    const answers = await admin.requeueMany(room.db, ids);
    expect(answers).toEqual(ids.map((id) => ({ id, answer: "requeued" })));
    expect(await room.rows("select from queue_jobs where status = 'queued'")).toHaveLength(2_500);
  });
});
