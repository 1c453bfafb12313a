import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Executor } from "../../src/queries/executor.js";
import { renewLeases } from "../../src/queries/renew-leases.js";
import { settleAndClaim } from "../../src/queries/settle-and-claim.js";
import type { SettleItem } from "../../src/queries/settle-jobs.js";
import { tableNames } from "../../src/schema/table-names.js";
import { createDatabase, type TestDatabase } from "../support/database.js";

// Where the cost of a row grew with the size of its batch, these took 7.6 and 2.5 seconds; they take
// 0.3 and 0.1. The limits lie far from both, so that a busy machine does not matter.
const LEASES = 3_000;
const ENDS = 250;

let database: TestDatabase;
let client: pg.Client;
let ids: number[];
const tables = tableNames();
const executor: Executor = {
  run: async ({ name, text, values }) =>
    (await client.query({ name, text, values: [...values] })).rows,
};

beforeAll(async () => {
  database = await createDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  // As on a worker's own connection.
  await client.query("set plan_cache_mode = force_generic_plan; set enable_seqscan = off");
  const { rows } = await client.query<{ id: string }>(
    `insert into queue_jobs (queue, name, payload, status, lease_until, lease_version, attempts)
     select 'default', 'work', '{}', 'running', now() + interval '1 hour', 1, 1 from generate_series(1, $1::int) returning id`,
    [LEASES],
  );
  ids = rows.map(({ id }) => Number(id));
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

test("three thousand leases are renewed in good time", async () => {
  const renew = renewLeases(tables);
  const startedMs = performance.now();
  const answers = await renew(
    executor,
    ids.map((id) => ({ id, leaseVersion: 1, leaseMs: 3_600_000 + id })),
  );
  expect(performance.now() - startedMs).toBeLessThan(2_500);
  expect(answers.size).toBe(0);
  // Each got the length of its own.
  const { rows } = await client.query(
    `select count(distinct round(extract(epoch from lease_until) * 1000) - id)::int as starts from queue_jobs`,
  );
  expect(rows).toEqual([{ starts: 1 }]);
});

test("two hundred and fifty errors with a stack are settled in good time", async () => {
  const settle = settleAndClaim(tables);
  const stack = "at somewhere (file.ts:1:1)\n".repeat(120);
  const items = ids.slice(0, ENDS).map(
    (id): SettleItem => ({
      id,
      leaseVersion: 1,
      recordsKey: false,
      settlement: {
        way: "end",
        status: "queued",
        delayMs: 1_000,
        isUncounted: false,
        error: JSON.stringify({ attempt: 1, at: null, name: "Error", message: `of ${id}`, stack }),
        errorLine: `Error: of ${id}`,
        result: null,
      },
    }),
  );
  const startedMs = performance.now();
  const { unsettled } = await settle(executor, { items, request: undefined });
  expect(performance.now() - startedMs).toBeLessThan(1_000);
  expect(unsettled.size).toBe(0);
  // Each got what was said of it.
  const { rows } = await client.query(
    `select count(*)::int from queue_jobs
     where status = 'queued' and last_error = 'Error: of ' || id and error_history -> 0 ->> 'message' = 'of ' || id`,
  );
  expect(rows).toEqual([{ count: ENDS }]);
});
