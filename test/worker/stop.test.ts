import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs, isAttemptError } from "drizzle-queue";
import { createWorker, type HandlerFor } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createTcpProxy } from "../support/tcp-proxy.js";
import { waitUntil } from "../support/wait-until.js";
import { createGate, openRoom, type Room } from "./room.js";

const later = defineJob({ payload: z.object({}), queue: "later" });
const queueWithLease = (leaseMs: number) =>
  createQueue({
    jobs: defineJobs({ work: defineJob({ payload: z.object({}), leaseMs }), later }),
  });
/** Leases that run out soon, where a test is about leases; the others must not depend on the machine's pace. */
const queue = queueWithLease(1_000);
const patientQueue = queueWithLease(30_000);
type Work = HandlerFor<typeof queue, "work", Room["db"]>;

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const workerWith = (work: Work, concurrency = 4, db = room.db, of = queue) =>
  createWorker({
    queue: of,
    db,
    only: ["work"],
    concurrency,
    handlers: { work },
    pollIntervalMs: 20,
    instrumentation: room.spy.listener,
  });

const enqueue = (count: number) => {
  const jobs = Array.from({ length: count }, () => ({ name: "work" as const, payload: {} }));
  return room.db.transaction((tx) => queue.enqueueMany(tx, jobs));
};

const byStatus = () =>
  room.rows("select status, attempts, count(*)::int from queue_jobs group by 1, 2 order by 1, 2");

const ownSessions = () =>
  room.rows(
    "select pid from pg_stat_activity where datname = current_database() and application_name like 'drizzle-queue %'",
  );

/** Nothing of a stopped worker is left in the database. */
async function expectNothingLeft(): Promise<void> {
  expect(await room.rows("select id from queue_workers")).toEqual([]);
  expect(await room.rows("select id from queue_jobs where status = 'running'")).toEqual([]);
  // A server process outlives its client's goodbye by a moment.
  await waitUntil("its sessions have ended", async () => (await ownSessions()).length === 0);
}

describe("stop", () => {
  test("waits for running handlers and settles what they did", async () => {
    const gate = createGate();
    const worker = workerWith(() => gate.opened);
    await worker.start();
    await enqueue(3);
    for (const _ of [1, 2, 3]) await room.spy.next("job.started");
    const stopping = worker.stop();
    gate.open();
    expect(await stopping).toEqual({ released: 0, abandoned: [] });
    expect(await byStatus()).toEqual([{ status: "done", attempts: 1, count: 3 }]);
    await expectNothingLeft();
  });

  test("keeps the leases of running handlers for as long as the grace period lasts", async () => {
    const gate = createGate();
    const worker = workerWith(() => gate.opened);
    await worker.start();
    const [job] = await enqueue(1);
    await room.spy.next("job.started");
    const stopping = worker.stop({ gracePeriodMs: 20_000 });
    const startedAt = performance.now();
    await waitUntil("two leases have passed", () => performance.now() - startedAt > 2_000);
    expect(await room.job(job?.id ?? 0)).toMatchObject({ status: "running", leaseVersion: 1 });
    gate.open();
    await stopping;
    expect(await byStatus()).toEqual([{ status: "done", attempts: 1, count: 1 }]);
    expect(room.spy.all("lease.lost")).toEqual([]);
  });

  test("gives back what has not started, with its attempt", async () => {
    const gate = createGate();
    let isHeld = false;
    const worker = workerWith(() => (isHeld ? gate.opened : undefined), 2);
    await worker.start();
    // Short jobs first, so that the worker learns to fetch ahead.
    await enqueue(200);
    await waitUntil("they are done", () => room.spy.all("job.done").length === 200);
    isHeld = true;
    await enqueue(40);
    await waitUntil(
      "more is claimed than can run",
      async () => (await room.rows("select from queue_jobs where status = 'running'")).length > 2,
    );
    const stopping = worker.stop();
    const released = await waitUntil(
      "they are given back",
      () => room.spy.all("job.released").length,
    );
    gate.open();
    const report = await stopping;
    expect(report.abandoned).toEqual([]);
    expect(report.released).toBeGreaterThanOrEqual(released);
    expect(report.released).toBe(room.spy.all("job.released").length);
    expect(await byStatus()).toEqual([
      { status: "done", attempts: 1, count: 202 },
      { status: "queued", attempts: 0, count: 38 },
    ]);
    await expectNothingLeft();
  });

  test("aborts handlers after the grace period and gives their jobs back", async () => {
    const reasons: unknown[] = [];
    const worker = workerWith(
      ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => {
            reasons.push(signal.reason);
            reject(signal.reason);
          });
        }),
    );
    await worker.start();
    await enqueue(2);
    for (const _ of [1, 2]) await room.spy.next("job.started");
    expect(await worker.stop({ gracePeriodMs: 30 })).toEqual({ released: 0, abandoned: [] });
    expect(reasons.map((reason) => isAttemptError(reason, "WORKER_STOPPING"))).toEqual([
      true,
      true,
    ]);
    expect(await byStatus()).toEqual([{ status: "queued", attempts: 0, count: 2 }]);
    await expectNothingLeft();
  });

  test("lets a handler that was told to end commit what it has", async () => {
    const worker = workerWith(async ({ signal, commit }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      await commit(async (tx) => {
        await tx.execute(sql`select 1`);
      });
    });
    await worker.start();
    await enqueue(1);
    await room.spy.next("job.started");
    expect(await worker.stop({ gracePeriodMs: 0 })).toEqual({ released: 0, abandoned: [] });
    expect(await byStatus()).toEqual([{ status: "done", attempts: 1, count: 1 }]);
  });

  test("reports handlers that ignore their abort, whose jobs others take after the lease", async () => {
    const gate = createGate();
    const worker = workerWith(() => gate.opened);
    await worker.start();
    const [job] = await enqueue(1);
    await room.spy.next("job.started");
    const startedAt = performance.now();
    const report = await worker.stop({ gracePeriodMs: 20 });
    expect(performance.now() - startedAt).toBeLessThan(2_020);
    expect(report).toEqual({ released: 0, abandoned: [job?.id] });
    expect(await room.spy.next("worker.stopped")).toMatchObject({ abandoned: [job?.id] });
    expect(await byStatus()).toEqual([{ status: "running", attempts: 1, count: 1 }]);

    await using other = workerWith(() => {});
    await other.start();
    await room.spy.next("job.done");
    gate.open();
    expect(await byStatus()).toEqual([{ status: "done", attempts: 2, count: 1 }]);
  });

  test("twice, or from two sides at once, is one stop", async () => {
    const worker = workerWith(() => {});
    await worker.start();
    const [first, second] = await Promise.all([worker.stop(), worker.stop({ gracePeriodMs: 0 })]);
    expect(first).toEqual({ released: 0, abandoned: [] });
    expect(second).toBe(first);
    expect(await worker.stop()).toEqual({ released: 0, abandoned: [] });
    expect(room.spy.all("worker.stopped")).toHaveLength(1);
  });

  test("before start does nothing, and start works afterwards", async () => {
    await using worker = workerWith(() => {});
    expect(await worker.stop()).toEqual({ released: 0, abandoned: [] });
    await worker.start();
    await enqueue(1);
    await room.spy.next("job.done");
    expect(await byStatus()).toEqual([{ status: "done", attempts: 1, count: 1 }]);
  });

  test("0 to 50 ms after a start that nobody awaited leaves nothing behind", async () => {
    await enqueue(300);
    for (let delayMs = 0; delayMs <= 50; delayMs += 2) {
      const worker = workerWith(() => {});
      const starting = worker.start();
      const askedAt = performance.now();
      if (delayMs > 0) {
        await waitUntil("the moment has come", () => performance.now() - askedAt >= delayMs, {
          intervalMs: 1,
        });
      }
      await worker.stop();
      await starting;
      await expectNothingLeft();
    }
    const attempts = await room.rows("select distinct status, attempts from queue_jobs");
    for (const row of attempts) {
      expect([
        { status: "done", attempts: 1 },
        { status: "queued", attempts: 0 },
      ]).toContainEqual(row);
    }
  });

  test("under load, again and again, loses and repeats nothing", async () => {
    const runs = new Map<number, number>();
    const work: Work = ({ job }) => {
      runs.set(job.id, (runs.get(job.id) ?? 0) + 1);
    };
    await enqueue(3_000);
    let rounds = 0;
    while (
      (await room.rows("select from queue_jobs where finished_at is null limit 1")).length > 0
    ) {
      const before = runs.size;
      const worker = workerWith(work, 4, room.db, patientQueue);
      await worker.start();
      // Not before it is at work, and then at once: in the middle of everything.
      await waitUntil("some have run", () => runs.size > before + 20 || runs.size === 3_000, {
        intervalMs: 1,
      });
      await worker.stop();
      await expectNothingLeft();
      rounds += 1;
    }
    expect(rounds).toBeGreaterThan(1);
    expect(await byStatus()).toEqual([{ status: "done", attempts: 1, count: 3_000 }]);
    expect([...runs.values()].every((count) => count === 1)).toBe(true);
  });

  test("does not wait for ever on a network that swallows everything", async () => {
    const proxy = await createTcpProxy(room.url);
    const pool = new pg.Pool({ connectionString: proxy.url });
    const gate = createGate();
    const worker = workerWith(() => gate.opened, 4, drizzle(pool));
    await worker.start();
    const [job] = await enqueue(1);
    await room.spy.next("job.started");
    proxy.swallow();
    const startedAt = performance.now();
    const report = await worker.stop({ gracePeriodMs: 500 });
    expect(performance.now() - startedAt).toBeLessThan(2_500);
    expect(report.abandoned).toEqual([job?.id]);
    gate.open();
    proxy.cut();
    await pool.end();
    await proxy.close();
  });
});

describe("a worker that was stopped", () => {
  test("can be started again", async () => {
    await using worker = workerWith(() => {});
    for (const round of [1, 2, 3]) {
      await worker.start();
      await enqueue(5);
      await waitUntil("they are done", () => room.spy.all("job.done").length === 5 * round);
      await worker.stop();
      await expectNothingLeft();
    }
    expect(await byStatus()).toEqual([{ status: "done", attempts: 1, count: 15 }]);
  });

  test("has not closed the app's pool", async () => {
    const worker = workerWith(() => {});
    await worker.start();
    await worker.stop();
    expect(room.pool.ended).toBe(false);
    const { id } = await queue.enqueueNow(room.db, "later", {});
    expect(await room.job(id)).toMatchObject({ status: "queued" });
  });
});

test("a handler can enqueue while the worker is stopping", async () => {
  const gate = createGate();
  const worker = workerWith(async ({ commit }) => {
    await gate.opened;
    await queue.enqueueNow(room.db, "later", {});
    await commit(async (tx) => {
      await queue.enqueue(tx, "later", {});
    });
  });
  await worker.start();
  await enqueue(1);
  await room.spy.next("job.started");
  const stopping = worker.stop();
  gate.open();
  await stopping;
  expect(await room.rows("select name, status from queue_jobs order by id")).toEqual([
    { name: "work", status: "done" },
    { name: "later", status: "queued" },
    { name: "later", status: "queued" },
  ]);
});

test("await using stops the worker at the end of the block", async () => {
  let id = "";
  {
    await using worker = workerWith(() => {});
    await worker.start();
    id = worker.id;
  }
  expect(room.spy.all("worker.stopped")).toMatchObject([{ workerId: id }]);
  await expectNothingLeft();
});
