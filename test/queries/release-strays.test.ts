import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { releaseStrays } from "../../src/queries/release-strays.js";
import { tableNames } from "../../src/schema/table-names.js";
import { createClaimFloors } from "../../src/worker/claim-floor.js";
import { createDatabase, type TestDatabase } from "../support/database.js";

let database: TestDatabase;
const release = releaseStrays(tableNames());

beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database.drop());
beforeEach(() => database.pool.query("truncate queue_jobs"));

/** A job that `worker` has claimed for its first attempt. */
async function claimedBy(worker: string, cancelRequestedAt: string | null = null): Promise<number> {
  const { rows } = await database.pool.query<{ id: string }>(
    `insert into queue_jobs (queue, name, payload, status, attempts, lease_version, lease_until, locked_by, cancel_requested_at)
     values ('default', 'note', '{}', 'running', 1, 1, statement_timestamp() + interval '1 minute', $1, $2)
     returning id`,
    [worker, cancelRequestedAt],
  );
  return Number(rows[0]?.id);
}

const give = (held: readonly number[], asked = 10) =>
  release(
    {
      run: async ({ text, values }) => (await database.pool.query(text, [...values])).rows,
    },
    { workerId: "w", pairs: createClaimFloors(["default"]).nextPairs(), asked, held },
  );

const states = async () => {
  const { rows } = await database.pool.query(
    "select status, attempts, outcome, finished_at is not null as is_final from queue_jobs order by id",
  );
  return rows as unknown[];
};

test("gives back what this worker has claimed without knowing, its attempt with it, and nothing else", async () => {
  await claimedBy("w");
  const held = await claimedBy("w");
  await claimedBy("another");
  expect(await give([held])).toBe(1);
  expect(await states()).toEqual([
    { status: "queued", attempts: 0, outcome: null, is_final: false },
    { status: "running", attempts: 1, outcome: null, is_final: false },
    { status: "running", attempts: 1, outcome: null, is_final: false },
  ]);
});

test("one whose end was asked for meanwhile gets no other attempt", async () => {
  await claimedBy("w", "2026-01-01T00:00:00Z");
  expect(await give([])).toBe(1);
  expect(await states()).toEqual([
    { status: "cancelled", attempts: 0, outcome: "cancelled", is_final: true },
  ]);
});

test("finds what it asked for behind as many that it holds", async () => {
  const insert = async (count: number): Promise<number[]> => {
    const { rows } = await database.pool.query<{ id: string }>(
      `insert into queue_jobs (queue, name, payload, status, attempts, lease_version, lease_until, locked_by)
       select 'default', 'note', '{}', 'running', 1, 1, statement_timestamp() + interval '1 minute', 'w'
       from generate_series(1, $1) returning id`,
      [count],
    );
    return rows.map(({ id }) => Number(id));
  };
  const held = await insert(2_500);
  await insert(3_000);
  expect(await give(held, 3_000)).toBe(3_000);
});
