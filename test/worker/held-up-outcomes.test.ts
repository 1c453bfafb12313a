import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import type pg from "pg";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({
    plain: defineJob({ payload: z.object({}) }),
    keyed: defineJob({ payload: z.object({ key: z.string() }), idempotencyKey: ({ key }) => key }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const startWorker = async () => {
  const worker = createWorker({
    queue,
    db: room.db,
    retention: { done: 0 },
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
    handlers: { plain: () => undefined, keyed: () => undefined },
  });
  await worker.start();
  return worker;
};

/** Another session that holds a lock until it is told to let go. */
async function holding(sql: string, values: unknown[]): Promise<() => Promise<void>> {
  const client: pg.PoolClient = await room.pool.connect();
  await client.query("begin");
  await client.query(sql, values);
  return async () => {
    await client.query("rollback");
    client.release();
  };
}

const done = () => room.spy.all("job.done").map(({ jobId }) => jobId);

test("a done row whose child an app holds locked waits; others are settled and claimed meanwhile", async () => {
  await room.rows(
    "create table children (id int primary key, job_id bigint references queue_jobs on delete cascade)",
  );
  const jobs = await room.db.transaction((tx) =>
    queue.enqueueMany(
      tx,
      Array.from({ length: 20 }, () => ({ name: "plain" as const, payload: {} })),
    ),
  );
  const held = jobs[7]?.id ?? 0;
  await room.rows("insert into children values (1, $1)", [held]);
  const letGo = await holding("select from children where id = 1 for update", []);
  await using _ = await startWorker();
  await waitUntil("the others are done", () => done().length === 19);
  await queue.enqueueNow(room.db, "plain", {});
  await waitUntil("a later one is done", () => done().length === 20);
  expect(done()).not.toContain(held);
  expect(await room.job(held)).toMatchObject({ status: "running" });
  expect(room.spy.all("statement.errored")).toMatchObject([
    { statement: "settle", error: { code: "55P03" } },
  ]);
  await letGo();
  await waitUntil("the held one is done", () => done().includes(held));
  expect(await room.rows("select id from queue_jobs")).toEqual([]);
  expect(room.spy.all("lease.lost")).toEqual([]);
  await room.rows("drop table children");
});

test("a key that somebody holds locked keeps only its own job from being settled", async () => {
  await room.rows(
    "insert into queue_processed_keys (name, idempotency_key, job_id, expires_at) values ('keyed', 'a', 1, now() + interval '1 second')",
  );
  await waitUntil("the key has expired", async () => {
    const [row] = await room.rows("select from queue_processed_keys where expires_at <= now()");
    return row !== undefined;
  });
  const letGo = await holding(
    "select from queue_processed_keys where idempotency_key = 'a' for update",
    [],
  );
  const { id } = await queue.enqueueNow(room.db, "keyed", { key: "a" });
  await queue.enqueueNow(room.db, "keyed", { key: "b" });
  await using _ = await startWorker();
  await waitUntil("the other one is done", () => done().length === 1);
  expect(done()).not.toContain(id);
  await letGo();
  await waitUntil("both are done", () => done().length === 2);
});

test("a trigger of the app that raises an error code of its own fails its job, and no other", async () => {
  await room.rows(
    `create function refuse() returns trigger language plpgsql as
     $$ begin if old.payload ? 'bad' then raise 'no' using errcode = 'QX001'; end if; return old; end $$`,
  );
  await room.rows(
    "create trigger refuse before delete on queue_jobs for each row execute function refuse()",
  );
  const ids = await room.rows<{ id: string }>(
    `insert into queue_jobs (queue, name, payload) select 'default', 'plain', case n when 4 then '{"bad":1}' else '{}' end::jsonb
     from generate_series(1, 9) as n returning id`,
  );
  await using _ = await startWorker();
  await waitUntil("the others are done", () => done().length === 8);
  await waitUntil("the bad one has failed", () => room.spy.all("job.failed").length === 1);
  expect(await room.job(Number(ids[3]?.id))).toMatchObject({
    status: "failed",
    lastError: expect.stringContaining("QX001") as string,
  });
  await room.rows("drop function refuse cascade");
});
