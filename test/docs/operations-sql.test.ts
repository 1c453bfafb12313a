import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy } from "../support/events.js";
import { codeBlocks, readPage } from "./pages.js";

const payload = z.object({ n: z.number() });
const jobs = defineJobs({
  plain: defineJob({ payload }),
  keyed: defineJob({ payload, idempotencyKey: ({ n }) => `key ${n}` }),
});

/** Roles belong to the whole server, so those of this run have names of their own. */
const suffix = crypto.randomUUID().slice(0, 8);
const roles = ["app_worker", "app_web"] as const;
const named = (sql: string): string =>
  sql.replaceAll(/\bapp_(worker|web)\b/g, (role) => `${role}_${suffix}`);

const sqlBlocks = codeBlocks(readPage("docs/operations.md")).filter(
  ({ language }) => language === "sql",
);
const isRole = ({ code }: { readonly code: string }): boolean => code.startsWith("create role");

let database: TestDatabase;
const pools: pg.Pool[] = [];

beforeAll(async () => {
  database = await createDatabase();
  for (const { code } of sqlBlocks.filter(isRole)) await database.pool.query(named(code));
  for (const role of roles) {
    await database.pool.query(`alter role ${named(role)} password 'secret'`);
  }
});

afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  for (const role of roles) {
    await database.pool.query(`drop owned by ${named(role)}`);
    await database.pool.query(`drop role ${named(role)}`);
  }
  await database.drop();
});

/** A Drizzle database whose connections belong to one of the roles. */
function connectAs(role: (typeof roles)[number]) {
  const url = new URL(database.url);
  url.username = named(role);
  url.password = "secret";
  const pool = new pg.Pool({ connectionString: url.href, max: 4 });
  pools.push(pool);
  return drizzle(pool);
}

describe("the roles of docs/operations.md", () => {
  test("an app that only enqueues can enqueue in every way, and read or change nothing else", async () => {
    const db = connectAs("app_web");
    const queue = createQueue({ jobs });
    await db.transaction(async (tx) => {
      expect(await queue.enqueue(tx, "plain", { n: 1 })).toMatchObject({ created: true });
      const delayed = await queue.enqueue(tx, "plain", { n: 1 }, { delayMs: 60_000 });
      expect(delayed).toMatchObject({ created: true, status: "queued" });
      const first = await queue.enqueue(tx, "keyed", { n: 1 });
      expect(await queue.enqueue(tx, "keyed", { n: 1 })).toMatchObject({ id: first.id });
      const many = [1, 2, 3].map((n) => ({ name: "keyed" as const, payload: { n } }));
      expect(await queue.enqueueMany(tx, many)).toHaveLength(3);
    });
    await queue.enqueueNow(db, "keyed", { n: 9 }, { runAt: new Date(Date.now() + 60_000) });
    for (const forbidden of [
      "select payload from queue_jobs",
      "select last_error from queue_jobs",
      "update queue_jobs set priority = 0",
      "delete from queue_jobs",
      "insert into queue_processed_keys (name, idempotency_key, job_id) values ('keyed', 'key 7', 7)",
    ]) {
      await expect(db.$client.query(forbidden), forbidden).rejects.toMatchObject({ code: "42501" });
    }
  });

  test.each([{ done: "keep" }, { done: 0 }] as const)(
    "a worker can do all its work, with retention $done",
    async (retention) => {
      const db = connectAs("app_worker");
      const spy = createEventSpy();
      const queue = createQueue({ jobs });
      const worker = createWorker({
        queue,
        db,
        retention,
        instrumentation: spy.listener,
        handlers: {
          plain: async ({ commit, payload: { n }, job }) => {
            if (n === 100 && job.attempt === 1) throw new Error("once");
            await commit(async (tx) => {
              await queue.enqueue(tx, "keyed", { n: n + (retention.done === 0 ? 5_000 : 1_000) });
            });
          },
          keyed: () => undefined,
        },
      });
      await worker.start();
      await db.transaction((tx) => queue.enqueue(tx, "plain", { n: 100 }));
      await spy.next("attempt.errored");
      await db.transaction((tx) => queue.enqueue(tx, "plain", { n: 200 }));
      await spy.next("job.done", ({ jobName }) => jobName === "plain");
      const follow = (event: { jobName: string; jobId: number }) => event.jobName === "keyed";
      await spy.next("job.done", follow);
      await worker.stop({ gracePeriodMs: 1_000 });
      expect(spy.all("statement.errored")).toEqual([]);
    },
  );
});

describe("the statements of docs/operations.md", () => {
  const others = sqlBlocks.filter((block) => !isRole(block));

  test("every one of them runs", async () => {
    expect(others.length).toBeGreaterThan(10);
    for (const { line, code } of others) {
      // One statement each: of several the driver gives a list.
      const answer = await database.pool.query(code).catch((error: unknown) => error);
      expect(answer, `line ${line}`).toMatchObject({
        command: code.slice(0, 6).toUpperCase(),
        rowCount: expect.any(Number),
      });
    }
  });

  test("those by hand change the job that they are for", async () => {
    const byHand = (start: string): string => {
      const block = others.find(({ code }) => code.startsWith(start));
      return (block?.code ?? "").replaceAll("id = 1", "id = $1");
    };
    const insert = async (columns: string, values: string): Promise<number> => {
      const { rows } = await database.pool.query<{ id: string }>(
        `insert into queue_jobs (queue, name, payload, ${columns})
         values ('elsewhere', 'plain', '{"n":1}', ${values}) returning id`,
      );
      return Number(rows[0]?.id);
    };
    const row = async (id: number) => {
      const { rows } = await database.pool.query("select * from queue_jobs where id = $1", [id]);
      return rows[0] as Record<string, unknown> | undefined;
    };

    const waiting = await insert("priority", "5");
    await database.pool.query(byHand("update queue_jobs set status = 'cancelled'"), [waiting]);
    expect(await row(waiting)).toMatchObject({ status: "cancelled", outcome: "cancelled" });

    await database.pool.query(byHand("update queue_jobs set status = 'queued'"), [waiting]);
    expect(await row(waiting)).toMatchObject({ status: "queued", outcome: null, attempts: 0 });

    const running = await insert("status, lease_until", "'running', now() + interval '1 minute'");
    await database.pool.query(byHand("update queue_jobs set cancel_requested_at"), [running]);
    expect(await row(running)).toMatchObject({ cancel_requested_at: expect.any(Date) });
  });
});

test("a job that is queued again by hand is out of reach for the worker that held it before", async () => {
  const requeue = sqlBlocks.find(({ code }) =>
    code.startsWith("update queue_jobs set status = 'queued'"),
  );
  // What the tests before have left would take one of the two slots.
  await database.pool.query("delete from queue_jobs");
  const spy = createEventSpy();
  const queue = createQueue({ jobs, instrumentation: spy.listener });
  const ends: (() => void)[] = [];
  const worker = createWorker({
    queue,
    db: drizzle(database.pool),
    only: ["keyed"],
    concurrency: 2,
    pollIntervalMs: 20,
    handlers: { keyed: () => new Promise<void>((resolve) => void ends.push(resolve)) },
  });
  await worker.start();
  const { id } = await queue.enqueueNow(drizzle(database.pool), "keyed", { n: 4_711 });
  await spy.next("job.started", ({ jobId }) => jobId === id);
  await database.pool.query(
    `update queue_jobs set status = 'failed', outcome = 'failed', finished_at = now(), lease_until = null,
       last_error = 'Error: first life', error_history = '[{"attempt": 1}]' where id = $1`,
    [id],
  );
  await database.pool.query((requeue?.code ?? "").replaceAll("id = 1", "id = $1"), [id]);
  await spy.next("job.started", ({ jobId }) => jobId === id);

  const row = async () => {
    const { rows } = await database.pool.query(
      "select status, attempts, lease_version, last_error, idempotency_key from queue_jobs where id = $1",
      [id],
    );
    return rows[0] as unknown;
  };
  const second = {
    status: "running",
    attempts: 1,
    lease_version: 2,
    last_error: "Error: first life",
    idempotency_key: "key 4711",
  };
  expect(await row()).toEqual(second);
  ends[0]?.();
  expect(await spy.next("lease.lost")).toMatchObject({ jobId: id, leaseVersion: 1 });
  expect(await row()).toEqual(second);
  ends[1]?.();
  expect(await spy.next("job.done")).toMatchObject({ jobId: id, leaseVersion: 2 });
  expect(await row()).toEqual({ ...second, status: "done" });
  await worker.stop();
});
