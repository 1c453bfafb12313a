import { isAttemptError } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createGate, openRoom, type Room } from "../worker/room.js";
import { admin, insertText, queue } from "./fixture.js";

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

async function insert(status: Parameters<typeof insertText>[0], count = 1): Promise<number[]> {
  const rows = await room.rows<{ id: number }>(insertText(status), [count]);
  return rows.map(({ id }) => id);
}

/** Somebody's transaction that has locked a job, as a worker's statement or an app's may. */
async function lock(id: number): Promise<() => Promise<void>> {
  const client = await room.pool.connect();
  await client.query("begin");
  await client.query("select from queue_jobs where id = $1 for no key update", [id]);
  return async () => {
    await client.query("rollback");
    client.release();
  };
}

describe("cancelling a job", () => {
  test("that waits ends it at once", async () => {
    const { id } = await queue.enqueueNow(room.db, "watched", {}, { delayMs: 60_000 });
    expect(await admin.cancel(room.db, id)).toBe("cancelled");
    expect(await admin.getJob(room.db, id)).toMatchObject({
      status: "cancelled",
      finishedAt: expect.any(Date),
      cancelRequestedAt: expect.any(Date),
    });
    expect(await admin.cancel(room.db, id)).toBe("ended");
  });

  test("that runs aborts its handler, and it is not tried again", async () => {
    const reasons: unknown[] = [];
    await using worker = createWorker({
      queue,
      db: room.db,
      only: ["watched"],
      instrumentation: room.spy.listener,
      handlers: {
        watched: async ({ signal }) => {
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          reasons.push(signal.reason);
          throw new Error("what an aborted request throws");
        },
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "watched", {});
    await room.spy.next("job.started");
    expect(await admin.cancel(room.db, id)).toBe("requested");
    expect(await admin.cancel(room.db, id)).toBe("requested");
    await room.spy.next("job.cancelled");
    expect(reasons.map((reason) => isAttemptError(reason, "JOB_CANCELLED"))).toEqual([true]);
    expect(await admin.getJob(room.db, id)).toMatchObject({ status: "cancelled", attempts: 1 });
  });

  test("whose worker was lost ends it at once, and that worker can write no more", async () => {
    const [id = 0] = await insert("running");
    await room.rows(
      "update queue_jobs set lease_until = now() - interval '1 s', lease_version = 4",
    );
    expect(await admin.cancel(room.db, id)).toBe("cancelled");
    expect(await room.job(id)).toMatchObject({ status: "cancelled", leaseVersion: 5 });
  });

  test.each(["done", "failed", "cancelled"] as const)(
    "that is %s changes nothing",
    async (status) => {
      const [id = 0] = await insert(status);
      const before = await admin.getJob(room.db, id);
      expect(await admin.cancel(room.db, id)).toBe("ended");
      expect(await admin.getJob(room.db, id)).toEqual(before);
    },
  );

  test("that is not there says so", async () => {
    expect(await admin.cancel(room.db, 4_711)).toBe("missing");
  });

  test("is undone with the caller's transaction, and takes effect with it", async () => {
    const { id } = await queue.enqueueNow(room.db, "watched", {}, { delayMs: 60_000 });
    let answer = "";
    const cancelled = room.db.transaction(async (tx) => {
      answer = await admin.cancel(tx, id);
      tx.rollback();
    });
    await expect(cancelled).rejects.toThrow("Rollback");
    expect(answer).toBe("cancelled");
    expect(await room.job(id)).toMatchObject({ status: "queued" });
    await room.db.transaction((tx) => admin.cancel(tx, id));
    expect(await room.job(id)).toMatchObject({ status: "cancelled" });
  });
});

describe("a job that somebody has locked", () => {
  test("is busy, and the others of the call are cancelled", async () => {
    const [first = 0, locked = 0, last = 0] = await insert("queued", 3);
    const unlock = await lock(locked);
    const answers = await admin.cancelMany(room.db, [last, locked, first, 4_711]);
    await unlock();
    expect(answers).toEqual([
      { id: last, answer: "cancelled" },
      { id: locked, answer: "busy" },
      { id: first, answer: "cancelled" },
      { id: 4_711, answer: "missing" },
    ]);
    expect(await room.job(locked)).toMatchObject({ status: "queued" });
  });

  test("for a moment only is cancelled when it is free", async () => {
    const [id = 0] = await insert("queued");
    const unlock = await lock(id);
    const answer = admin.cancel(room.db, id);
    await unlock();
    expect(await answer).toBe("cancelled");
  });

  test("by an app's row that refers to it is cancelled all the same", async () => {
    const [id = 0] = await insert("queued");
    const client = await room.pool.connect();
    await client.query("begin");
    await client.query("select from queue_jobs where id = $1 for key share", [id]);
    const answer = await admin.cancel(room.db, id);
    await client.query("rollback");
    client.release();
    expect(answer).toBe("cancelled");
  });
});

test("of jobs that are cancelled while workers run them, each ends as the answer allows, and runs once at most", async () => {
  const ran = new Map<number, number>();
  const gate = createGate();
  const workers = [1, 2].map(() =>
    createWorker({
      queue,
      db: room.db,
      only: ["watched"],
      instrumentation: room.spy.listener,
      handlers: {
        watched: async ({ job }) => {
          ran.set(job.id, (ran.get(job.id) ?? 0) + 1);
          await gate.opened;
        },
      },
    }),
  );
  const items = Array.from({ length: 1_000 }, () => ({ name: "watched" as const, payload: {} }));
  const jobs = await room.db.transaction((tx) => queue.enqueueMany(tx, items));
  await Promise.all(workers.map((worker) => worker.start()));
  const { jobId: first } = await room.spy.next("job.started");
  // Of one that runs, one that does not yet, and of all the others while the workers take them.
  const early = [first, jobs.at(-1)?.id ?? 0];
  const answers = new Map<number, string>();
  const cancel = async (id: number) => answers.set(id, await admin.cancel(room.db, id));
  for (const id of early) await cancel(id);
  expect(early.map((id) => answers.get(id))).toEqual(["requested", "cancelled"]);
  gate.open();
  await Promise.all(jobs.filter(({ id }) => !early.includes(id)).map(({ id }) => cancel(id)));

  const open = () => room.rows("select id from queue_jobs where finished_at is null");
  await expect.poll(open, { timeout: 20_000 }).toEqual([]);
  await Promise.all(workers.map((worker) => worker.stop()));
  const rows = await room.rows<{ id: string; status: string }>("select id, status from queue_jobs");
  for (const { id, status } of rows) {
    const told = answers.get(Number(id));
    const runs = ran.get(Number(id)) ?? 0;
    const allowed = {
      cancelled: status === "cancelled" && runs === 0,
      requested: runs === 1,
      ended: status === "done" && runs === 1,
      busy: status === "done" && runs === 1,
    };
    expect({
      id,
      told,
      status,
      runs,
      isAllowed: allowed[told as keyof typeof allowed],
    }).toMatchObject({
      isAllowed: true,
    });
  }
});
