import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { isAttemptError } from "drizzle-queue";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { waitUntil } from "../support/wait-until.js";
import {
  type CommitHandlers,
  commitWorker,
  effects,
  openCommitRoom,
  queue,
} from "./commit-fixture.js";
import type { Room } from "./room.js";

let room: Room;
beforeAll(async () => {
  room = await openCommitRoom();
});
afterEach(async () => {
  await room.clear();
  await room.rows("truncate effects");
});
afterAll(() => room.close());

const workerWith = (handlers: CommitHandlers, db = room.db) => commitWorker(room, handlers, db);

describe("commit", () => {
  test("writes effect, follow-up, processed key and completion in one transaction", async () => {
    await using worker = workerWith({
      report: async ({ payload, job, commit }) => {
        await commit(async (tx) => {
          await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
          await queue.enqueue(tx, "email", { reportId: payload.reportId });
        });
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });

    await room.spy.next("job.done");

    const written = await room.rows<{ what: string; transaction: string }>(
      `select 'effect' as what, xmin::text as transaction from effects where job_id = $1
       union all select name || ' ' || status, xmin::text from queue_jobs
       union all select 'key ' || idempotency_key, xmin::text from queue_processed_keys where job_id = $1
       order by 1`,
      [id],
    );
    expect(written.map(({ what }) => what)).toEqual([
      "effect",
      "email queued",
      "key r1",
      "report done",
    ]);
    expect(new Set(written.map(({ transaction }) => transaction)).size).toBe(1);
  });

  test("sends a query that its effect returns without awaiting it, in the same transaction", async () => {
    await using worker = workerWith({
      report: ({ job, commit }) =>
        commit((tx) => tx.insert(effects).values({ jobId: job.id, attempt: job.attempt })),
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });

    await room.spy.next("job.done");

    expect(
      await room.rows(
        `select effects.xmin::text = queue_jobs.xmin::text as together, result
         from effects join queue_jobs on queue_jobs.id = job_id where job_id = $1`,
        [id],
      ),
    ).toEqual([{ together: true, result: null }]);
  });

  test("writes nothing when its effect throws, and the next attempt may succeed", async () => {
    await using worker = workerWith({
      report: async ({ payload, job, commit }) => {
        await commit(async (tx) => {
          await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
          await queue.enqueue(tx, "email", { reportId: payload.reportId });
          if (job.attempt === 1) throw new Error("half-way");
        });
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });

    await room.spy.next("attempt.errored");
    await room.spy.next("job.done");

    expect(await room.rows("select attempt from effects")).toEqual([{ attempt: 2 }]);
    expect(await room.rows("select name from queue_jobs where id <> $1", [id])).toHaveLength(1);
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: 2 });
  });

  test("may be tried again inside the handler after its effect threw", async () => {
    await using worker = workerWith({
      report: async ({ job, commit }) => {
        const failing = commit(() => {
          throw new Error("not this time");
        });
        await expect(failing).rejects.toThrow("not this time");
        await commit(async (tx) => {
          await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
        });
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });
    await room.spy.next("job.done");
    expect(await room.rows("select attempt from effects")).toEqual([{ attempt: 1 }]);
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: 1, errors: [] });
    expect(room.spy.all("handler.errored_after_commit")).toEqual([]);
  });

  test("may succeed once: a second call throws COMMITTED_TWICE and the first stands", async () => {
    const refusals: unknown[] = [];
    await using worker = workerWith({
      report: async ({ job, commit }) => {
        const insert = async (tx: Parameters<Parameters<typeof commit>[0]>[0]) => {
          await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
        };
        await commit(insert);
        await commit(insert).catch((error: unknown) => refusals.push(error));
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });
    await room.spy.next("job.done");
    expect(refusals.map((error) => isAttemptError(error, "COMMITTED_TWICE"))).toEqual([true]);
    expect(await room.rows("select attempt from effects")).toEqual([{ attempt: 1 }]);
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: 1 });
  });

  test("stands when the handler throws afterwards; the error is reported", async () => {
    await using worker = workerWith({
      report: async ({ job, commit }) => {
        await commit(async (tx) => {
          await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
        });
        throw new Error("too late");
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });
    await room.spy.next("job.done");
    expect(await room.spy.next("handler.errored_after_commit")).toMatchObject({
      jobId: id,
      error: { message: "too late" },
    });
    expect(room.spy.all("attempt.errored")).toEqual([]);
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: 1, errors: [] });
    expect(await room.rows("select attempt from effects")).toEqual([{ attempt: 1 }]);
  });

  test("is rolled back with LEASE_LOST when another claim has raised the version meanwhile", async () => {
    const refusals: unknown[] = [];
    await using worker = workerWith({
      report: async ({ job, commit }) => {
        if (job.attempt > 1) return;
        const committing = commit(async (tx) => {
          await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
          await room.rows("update queue_jobs set lease_version = lease_version + 1 where id = $1", [
            job.id,
          ]);
        });
        await committing.catch((error: unknown) => refusals.push(error));
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });
    await waitUntil("the commit was refused", () => refusals.length === 1);
    expect(isAttemptError(refusals[0], "LEASE_LOST")).toBe(true);
    expect(await room.rows("select * from effects")).toEqual([]);
    expect(await room.rows("select * from queue_processed_keys")).toEqual([]);
    expect(await room.job(id)).toMatchObject({ status: "running", leaseVersion: 2 });
    // Whoever holds that version is nobody: its lease runs out and the job is claimed again.
    await room.spy.next("job.done");
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: 2, leaseVersion: 3 });
  });

  test("may take longer than a lease, which is renewed meanwhile", async () => {
    await using worker = workerWith({
      report: async ({ job, commit }) => {
        await commit(async (tx) => {
          await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
          const startedAt = performance.now();
          // Nothing on the transaction itself may pause for longer than the lease.
          await waitUntil("two leases have passed", async () => {
            await tx.execute(sql`select 1`);
            return performance.now() - startedAt > 1_200;
          });
        });
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });
    await room.spy.next("job.done");
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: 1, leaseVersion: 1 });
    expect(room.spy.all("lease.lost")).toEqual([]);
  });

  test("works when the app's pool has a single connection", async () => {
    const pool = new pg.Pool({ connectionString: room.url, max: 1 });
    await using worker = workerWith(
      {
        report: async ({ payload, job, commit }) => {
          await commit(async (tx) => {
            await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
            await queue.enqueue(tx, "email", { reportId: payload.reportId });
          });
        },
      },
      drizzle(pool),
    );
    await worker.start();
    await room.db.transaction((tx) =>
      queue.enqueueMany(
        tx,
        Array.from({ length: 25 }, (_, n) => ({
          name: "report" as const,
          payload: { reportId: `r${n}` },
        })),
      ),
    );
    await waitUntil("all are done", () => room.spy.all("job.done").length === 25);
    expect(
      await room.rows(
        "select count(distinct job_id)::int as jobs, count(*)::int as effects from effects",
      ),
    ).toEqual([{ jobs: 25, effects: 25 }]);
    await worker.stop();
    await pool.end();
  });

  test("does not cost the process when its connection dies half-way", async () => {
    await using worker = workerWith({
      report: async ({ job, commit }) => {
        await commit(async (tx) => {
          await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
          if (job.attempt > 1) return;
          const { rows } = await tx.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`);
          await room.rows("select pg_terminate_backend($1, 5000)", [rows[0]?.pid]);
        });
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });
    await room.spy.next("job.done");
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: 2 });
    expect(await room.rows("select attempt from effects")).toEqual([{ attempt: 2 }]);
  });
});

describe("commit with a result", () => {
  test("stores what its callback returns and gives it back", async () => {
    const given: unknown[] = [];
    await using worker = workerWith({
      measure: async ({ commit }) => {
        const result = await commit(() => ({ pages: 12 }));
        given.push(result);
        return result;
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "measure", {});
    await room.spy.next("job.done");
    expect(given).toEqual([{ pages: 12 }]);
    expect(await room.job(id)).toMatchObject({ status: "done", result: { pages: 12 } });
  });

  test("that does not fit its schema writes nothing and is an error of the attempt", async () => {
    await using worker = workerWith({
      measure: ({ job, commit }) =>
        commit(async (tx) => {
          await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
          return { pages: 1.5 };
        }),
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "measure", {});
    await room.spy.next("job.failed");
    const job = await room.job(id);
    expect(job).toMatchObject({ status: "failed", attempts: 2, result: null });
    expect(job?.errors.map(({ code }) => code)).toEqual(["RESULT_INVALID", "RESULT_INVALID"]);
    expect(await room.rows("select * from effects")).toEqual([]);
  });
});
