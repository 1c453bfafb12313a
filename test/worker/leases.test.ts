import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs, isAttemptError } from "drizzle-queue";
import { createWorker, type HandlerFor } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { createEventSpy } from "../support/events.js";
import { createTcpProxy } from "../support/tcp-proxy.js";
import { waitUntil } from "../support/wait-until.js";
import { createGate, openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({ work: defineJob({ payload: z.object({}), leaseMs: 1_000 }) }),
});
type Work = HandlerFor<typeof queue, "work", Room["db"]>;

let room: Room;
beforeAll(async () => {
  room = await openRoom();
  await room.rows("create table effects (job_id bigint, attempt int)");
});
afterEach(async () => {
  await room.clear();
  await room.rows("truncate effects");
});
afterAll(() => room.close());

const workerWith = (work: Work, spy = room.spy, db = room.db) =>
  createWorker({
    queue,
    db,
    pollIntervalMs: 50,
    instrumentation: spy.listener,
    handlers: { work },
  });

test("a job that runs for five leases, renewed in time, has one attempt", async () => {
  const gate = createGate();
  const rival = createEventSpy();
  await using worker = workerWith(() => gate.opened);
  await using other = workerWith(() => {}, rival);
  await worker.start();
  const { id } = await queue.enqueueNow(room.db, "work", {});
  await room.spy.next("job.started");
  await other.start();
  const startedAt = performance.now();
  await waitUntil("five leases have passed", () => performance.now() - startedAt > 5_000);
  gate.open();
  await room.spy.next("job.done");
  expect(await room.job(id)).toMatchObject({ status: "done", attempts: 1, leaseVersion: 1 });
  expect(rival.all("job.claimed")).toEqual([]);
});

test("a worker whose renewals do not get through ends its handler before another may start, and cannot commit", async () => {
  const proxy = await createTcpProxy(room.url);
  const pool = new pg.Pool({ connectionString: proxy.url });
  // Only what travels on the renewal connection is lost, from when the test says so.
  let isLosing = false;
  const renewals = new Set<number>();
  proxy.intercept((chunk, direction, { id }) => {
    if (chunk.includes("drizzle-queue renewal")) renewals.add(id);
    return isLosing && direction === "toServer" && renewals.has(id) ? "drop" : "pass";
  });
  const refusals: unknown[] = [];
  let abortedAt = 0;
  const cutOff = workerWith(
    async ({ job, signal, commit }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      abortedAt = Date.now();
      expect(isAttemptError(signal.reason, "LEASE_LOST")).toBe(true);
      await commit(async (tx) => {
        await tx.execute(sql`insert into effects values (${job.id}, ${job.attempt})`);
      }).catch((error: unknown) => refusals.push(error));
    },
    room.spy,
    drizzle(pool),
  );
  await cutOff.start();
  const { id } = await queue.enqueueNow(room.db, "work", {});
  await room.spy.next("leases.renewed");
  isLosing = true;
  const rival = createEventSpy();
  await using other = workerWith(async ({ job, commit }) => {
    await commit(async (tx) => {
      await tx.execute(sql`insert into effects values (${job.id}, ${job.attempt})`);
    });
  }, rival);
  await other.start();

  expect(await room.spy.next("lease.lost")).toMatchObject({ jobId: id, noticedBy: "deadline" });
  await waitUntil("the late commit was refused", () => refusals.length === 1);
  expect(isAttemptError(refusals[0], "LEASE_LOST")).toBe(true);
  // The one that lost it may be the one that takes it again; whoever it is, it is one more attempt.
  await cutOff.stop({ gracePeriodMs: 0 });
  await waitUntil("the job is done", async () => (await room.job(id))?.status === "done");
  const job = await room.job(id);
  expect(job?.startedMs).toBeGreaterThanOrEqual(abortedAt - 50);
  expect(await room.rows("select attempt from effects")).toEqual([{ attempt: job?.attempts }]);
  await pool.end();
  await proxy.close();
});

test.each([
  ["after the server has carried it out", "toClient", 1],
  ["before it reaches the server", "toServer", 2],
] as const)(
  "a COMMIT whose answer is lost %s leaves the effect there once",
  async (_, direction, attempts) => {
    const proxy = await createTcpProxy(room.url);
    const pool = new pg.Pool({ connectionString: proxy.url });
    let isArmed = true;
    let committing: number | undefined;
    proxy.intercept((chunk, way, connection) => {
      if (!isArmed) return "pass";
      if (way === "toServer" && /\bcommit\b/i.test(chunk.toString("latin1")))
        committing = connection.id;
      if (connection.id !== committing || way !== direction) return "pass";
      isArmed = false;
      connection.cut();
      return "drop";
    });
    const refusals: unknown[] = [];
    const worker = workerWith(
      async ({ job, commit }) => {
        await commit(async (tx) => {
          await tx.execute(sql`insert into effects values (${job.id}, ${job.attempt})`);
        }).catch((error: unknown) => {
          refusals.push(error);
          throw error;
        });
      },
      room.spy,
      drizzle(pool),
    );
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "work", {});
    if (attempts === 2) {
      await room.spy.next("attempt.errored");
      await room.rows("update queue_jobs set available_at = now()");
    }
    await room.spy.next("job.done");
    await worker.stop();

    expect(isArmed).toBe(false);
    expect(refusals).toHaveLength(attempts - 1);
    expect(await room.job(id)).toMatchObject({ status: "done", attempts });
    expect(await room.rows("select attempt from effects")).toEqual([{ attempt: attempts }]);
    await pool.end();
    await proxy.close();
  },
);
