import { drizzle } from "drizzle-orm/node-postgres";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { drizzleExecutor, type Executor } from "../../src/queries/executor.js";
import { oldJobs, oldProcessedKeys } from "../../src/queries/prune-rows.js";
import { tableNames } from "../../src/schema/table-names.js";
import { createDatabase, type TestDatabase } from "../support/database.js";

const HOUR_MS = 3_600_000;
const tables = tableNames();

let database: TestDatabase;
let executor: Executor;
beforeAll(async () => {
  database = await createDatabase();
  executor = drizzleExecutor(drizzle(database.pool));
});
afterEach(() => database.pool.query("truncate queue_jobs, queue_processed_keys"));
afterAll(() => database.drop());

const idsOf = async (sql: string, values: unknown[] = []): Promise<number[]> =>
  (await database.pool.query<{ id: string }>(sql, values)).rows.map(({ id }) => Number(id));

/** A job that ended so many minutes ago. */
async function ended(outcome: string, minutes: number): Promise<number> {
  const [id] = await idsOf(
    `insert into queue_jobs (queue, name, payload, status, outcome, finished_at)
     values ('default', 'note', '{}', $1, $1, now() - $2 * interval '1 minute') returning id`,
    [outcome, minutes],
  );
  return id ?? 0;
}

const left = () => idsOf("select id from queue_jobs order by id");

describe("old jobs", () => {
  test("are those of one outcome beyond the age, the oldest first", async () => {
    const [younger, older] = [await ended("done", 61), await ended("done", 90)];
    await ended("done", 59);
    await ended("failed", 90);
    await database.pool.query(
      "insert into queue_jobs (queue, name, payload, created_at) values ('default', 'note', '{}', now() - interval '1 year')",
    );
    const found = await oldJobs(tables, "done", HOUR_MS).find(executor, null, 10);
    expect(found.map(({ id }) => id)).toEqual([older, younger]);
  });

  test("are found a limited number at a time, each search behind the last one's end, though their times differ by a microsecond", async () => {
    const ids = await idsOf(
      `insert into queue_jobs (queue, name, payload, status, outcome, finished_at)
       select 'default', 'note', '{}', 'done', 'done', now() - interval '2 hours' + (n / 2) * interval '1 microsecond'
       from generate_series(0, 9) as n returning id`,
    );
    const rows = oldJobs(tables, "done", HOUR_MS);
    const found: number[] = [];
    for (let after = (await rows.find(executor, null, 3)).slice(); after.length > 0; ) {
      found.push(...after.map(({ id }) => id));
      after = (await rows.find(executor, after.at(-1) ?? null, 3)).slice();
    }
    expect(found).toEqual(ids);
  });

  test("are deleted, and counted, if they are still old", async () => {
    const [old, requeued, locked] = [
      await ended("failed", 90),
      await ended("failed", 90),
      await ended("failed", 90),
    ];
    await database.pool.query(
      "update queue_jobs set status = 'queued', outcome = null, finished_at = null where id = $1",
      [requeued],
    );
    const other = await database.pool.connect();
    await other.query("begin");
    await other.query("select from queue_jobs where id = $1 for key share", [locked]);
    const rows = oldJobs(tables, "failed", HOUR_MS);
    expect(await rows.remove(executor, [old, requeued, locked, 999_999])).toBe(1);
    await other.query("rollback");
    other.release();
    expect(await left()).toEqual([requeued, locked]);
  });

  test("are all of them old where the age is 0", async () => {
    const id = await ended("done", 0);
    const rows = oldJobs(tables, "done", 0);
    expect((await rows.find(executor, null, 10)).map((row) => row.id)).toEqual([id]);
    expect(await rows.remove(executor, [id])).toBe(1);
  });
});

test("processed keys are old once they have expired", async () => {
  const ids = await idsOf(
    `insert into queue_processed_keys (name, idempotency_key, job_id, expires_at) values
     ('note', 'later', 1, now() + interval '1 minute'), ('note', 'now', 2, now()),
     ('note', 'never', 3, null), ('note', 'before', 4, now() - interval '1 minute') returning id`,
  );
  const rows = oldProcessedKeys(tables);
  const found = (await rows.find(executor, null, 10)).map(({ id }) => id);
  expect(found).toEqual([ids[3], ids[1]]);
  // Whatever it is told to.
  expect(await rows.remove(executor, ids)).toBe(2);
  expect(await idsOf("select id from queue_processed_keys order by id")).toEqual([ids[0], ids[2]]);
});
