import { sql } from "drizzle-orm";
import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import {
  createQueue,
  defineJob,
  defineJobs,
  FailJob,
  isAttemptError,
  SnoozeJob,
} from "drizzle-queue";
import { createWorker, type HandlerFor } from "drizzle-queue/worker";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy, type EventSpy } from "../support/events.js";
import { waitUntil } from "../support/wait-until.js";

const endings = ["return", "throw", "FailJob", "SnoozeJob", "commit"] as const;
const queue = createQueue({
  jobs: defineJobs({
    patient: defineJob({ payload: z.object({ ending: z.enum(endings) }), leaseMs: 60_000 }),
    brief: defineJob({ payload: z.object({ ending: z.enum(endings) }), leaseMs: 1_500 }),
  }),
});
type Handler = HandlerFor<typeof queue, "patient" | "brief", NodePgDatabase>;

let database: TestDatabase;
let stale: EventSpy;
let fresh: EventSpy;
beforeEach(async () => {
  database = await createDatabase();
  await database.pool.query("create table effects (job_id bigint)");
  stale = createEventSpy();
  fresh = createEventSpy();
});
afterEach(() => database.drop());

/** The stale one has no free slot, so that it cannot take its own jobs anew. */
const workerOf = (spy: EventSpy, concurrency: number, handler: Handler) =>
  createWorker({
    queue,
    db: drizzle(database.pool),
    concurrency,
    pollIntervalMs: 20,
    instrumentation: spy.listener,
    handlers: { patient: handler, brief: handler },
  });

/** Ends the leases on the server alone; who holds the jobs is not told. */
const expireLeases = () =>
  database.pool.query("update queue_jobs set lease_until = statement_timestamp()");

const rows = async () => {
  const result = await database.pool.query(
    `select id::int, status, attempts, lease_version, locked_by, last_error, available_at::text,
       lease_until > statement_timestamp() as is_leased from queue_jobs order by id`,
  );
  return result.rows;
};

test("a stale worker can neither complete, retry, fail, snooze nor commit a newer claim", async () => {
  let endStale = (): void => {};
  const staleEnds = new Promise<void>((resolve) => (endStale = resolve));
  let endFresh = (): void => {};
  const freshEnds = new Promise<void>((resolve) => (endFresh = resolve));
  const refusals: unknown[] = [];
  await using first = workerOf(stale, endings.length, async ({ payload, job, commit }) => {
    await staleEnds;
    if (payload.ending === "throw") throw new Error("stale");
    if (payload.ending === "FailJob") throw new FailJob("stale");
    if (payload.ending === "SnoozeJob") throw new SnoozeJob({ delayMs: 60_000 });
    if (payload.ending === "commit") {
      await commit(async (tx) => {
        await tx.execute(sql`insert into effects values (${job.id})`);
      }).catch((error: unknown) => refusals.push(error));
    }
  });
  await using second = workerOf(fresh, 10, () => freshEnds);
  for (const ending of endings)
    await queue.enqueueNow(drizzle(database.pool), "patient", { ending });
  await first.start();
  for (const _ of endings) await stale.next("job.started");

  await expireLeases();
  await second.start();
  for (const _ of endings) await fresh.next("job.started");
  const claimed = await rows();
  endStale();
  for (const _ of endings) await stale.next("lease.lost");

  expect(await rows()).toEqual(claimed);
  for (const row of claimed) {
    expect(row).toMatchObject({
      status: "running",
      attempts: 2,
      lease_version: 2,
      locked_by: second.id,
      is_leased: true,
    });
  }
  expect(stale.all("lease.lost")).toHaveLength(endings.length);
  expect(refusals.map((error) => isAttemptError(error, "LEASE_LOST"))).toEqual([true]);
  expect((await database.pool.query("select * from effects")).rows).toEqual([]);

  // The newer claim is the one whose end counts.
  endFresh();
  for (const _ of endings) await fresh.next("job.done");
  expect((await rows()).map(({ status, lease_version }) => [status, lease_version])).toEqual(
    endings.map(() => ["done", 2]),
  );
});

test("a stale worker cannot renew a newer claim, and its handler is told that the lease is lost", async () => {
  const reasons: unknown[] = [];
  let endFresh = (): void => {};
  const freshEnds = new Promise<void>((resolve) => (endFresh = resolve));
  await using first = workerOf(stale, 1, async ({ signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    reasons.push(signal.reason);
  });
  // It holds the job under a far longer lease, so that only the stale one would renew.
  await using second = workerOf(fresh, 10, () => freshEnds);
  const { id } = await queue.enqueueNow(drizzle(database.pool), "brief", { ending: "return" });
  await first.start();
  await stale.next("job.started");
  await expireLeases();
  await second.start();
  await fresh.next("job.started");
  await database.pool.query("update queue_jobs set lease_until = '2100-01-01' where id = $1", [id]);

  expect(await stale.next("lease.lost")).toMatchObject({ jobId: id, noticedBy: "renewal" });

  await waitUntil("the handler was told", () => reasons.length === 1);
  expect(isAttemptError(reasons[0], "LEASE_LOST")).toBe(true);
  expect(await rows()).toMatchObject([
    { status: "running", attempts: 2, lease_version: 2, locked_by: second.id, is_leased: true },
  ]);
  endFresh();
  await fresh.next("job.done");
});

test("a stale worker that stops cannot release a newer claim", async () => {
  let endFresh = (): void => {};
  const freshEnds = new Promise<void>((resolve) => (endFresh = resolve));
  const first = workerOf(stale, 1, async ({ signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw signal.reason;
  });
  await using second = workerOf(fresh, 10, () => freshEnds);
  await queue.enqueueNow(drizzle(database.pool), "patient", { ending: "return" });
  await first.start();
  await stale.next("job.started");
  await expireLeases();
  await second.start();
  await fresh.next("job.started");
  const claimed = await rows();

  await first.stop({ gracePeriodMs: 0 });

  expect(await rows()).toEqual(claimed);
  expect(claimed).toMatchObject([{ status: "running", lease_version: 2, locked_by: second.id }]);
  expect(stale.all("job.released")).toEqual([]);
  endFresh();
  await fresh.next("job.done");
});
