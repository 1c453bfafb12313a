import type pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Executor, Row } from "../../src/queries/executor.js";
import { renewLeases } from "../../src/queries/renew-leases.js";
import { settleAndClaim } from "../../src/queries/settle-and-claim.js";
import type { Settlement } from "../../src/queries/settle-jobs.js";
import { tableNames } from "../../src/schema/table-names.js";
import { claimRequest } from "../support/claims.js";
import { createDatabase, type TestDatabase } from "../support/database.js";

/** A hundred running jobs, one of them locked by a transaction that stays open. */
const JOBS = 100;
const tables = tableNames();
const run = settleAndClaim(tables);
const renew = renewLeases(tables);

let database: TestDatabase;
let executor: Executor;
let session: pg.PoolClient;
let holder: pg.PoolClient;
let ids: number[];

beforeAll(async () => {
  database = await createDatabase();
  session = await database.pool.connect();
  // One that waits for the lock is told so, instead of hanging until the test is over.
  await session.query("set lock_timeout = '500ms'");
  executor = {
    run: async ({ text, values }): Promise<readonly Row[]> =>
      (await session.query<Row>(text, [...values])).rows,
  };
  holder = await database.pool.connect();
});

beforeEach(async () => {
  await holder.query("rollback");
  await database.pool.query("truncate queue_jobs");
  const { rows } = await database.pool.query<{ id: string }>(
    `insert into queue_jobs (queue, name, payload, status, attempts, lease_version, lease_until, locked_by)
       select 'default', 'note', '{}', 'running', 1, 1, statement_timestamp() + interval '1 minute', 'w'
       from generate_series(1, ${JOBS}) returning id`,
  );
  ids = rows.map(({ id }) => Number(id)).sort((a, b) => a - b);
});

afterAll(async () => {
  session.release(true);
  holder.release(true);
  await database.drop();
});

const locked = (): number => ids[50] ?? -1;

async function lock(strength: "update" | "no key update" = "update"): Promise<void> {
  await holder.query("begin");
  await holder.query(`select from queue_jobs where id = $1 for ${strength}`, [locked()]);
}

async function countWhere(condition: string): Promise<number> {
  const { rows } = await database.pool.query<{ count: number }>(
    `select count(*)::int as count from queue_jobs where ${condition}`,
  );
  return rows[0]?.count ?? -1;
}

const settle = (settlement: Settlement) =>
  run(executor, {
    items: ids.map((id) => ({ id, leaseVersion: 1, settlement, recordsKey: false })),
    request: undefined,
  });

const ended = {
  way: "end",
  status: "failed",
  delayMs: null,
  isUncounted: false,
  error: null,
  errorLine: "Error: x",
  result: null,
} as const;

describe("no batched statement waits for a row lock:", () => {
  test("the 99 neighbours of a locked job are renewed, and it is answered busy", async () => {
    await lock();
    const answers = await renew(
      executor,
      ids.map((id) => ({ id, leaseVersion: 1, leaseMs: 3_600_000 })),
    );
    expect([...answers]).toEqual([[locked(), "busy"]]);
    expect(await countWhere("lease_until > statement_timestamp() + interval '30 minutes'")).toBe(
      99,
    );
  });

  test.each([
    ["completed", { way: "complete" }, "status = 'done'", 99],
    ["removed", { way: "remove" }, "true", 1],
    ["ended", ended, "status = 'failed'", 99],
  ] as const)(
    "the 99 neighbours of a locked job are %s",
    async (_what, settlement, left, count) => {
      await lock();
      expect([...(await settle(settlement)).unsettled]).toEqual([[locked(), "busy"]]);
      expect(await countWhere(left)).toBe(count);
      await holder.query("rollback");
      // Tried again, it is settled too; the others say that they are already.
      const again = await settle(settlement);
      expect(again.unsettled.get(locked())).toBeUndefined();
      expect(again.unsettled.size).toBe(99);
    },
  );

  test("the 99 neighbours of a locked job that commit has completed are discarded", async () => {
    await database.pool.query(
      "update queue_jobs set status = 'done', outcome = 'done', finished_at = now(), lease_until = null",
    );
    await lock();
    expect([...(await settle({ way: "discard" })).unsettled]).toEqual([[locked(), "busy"]]);
    expect(await countWhere("true")).toBe(1);
  });

  test.each([
    ["a claim", {}, "status = 'queued', lease_until = null"],
    ["a prompt claim", { isPrompt: true }, "status = 'queued', lease_until = null"],
    [
      "a sweep",
      { sweep: { reachMs: null, exclusive: false, suspects: 1 } },
      "lease_until = statement_timestamp() - interval '1 second'",
    ],
  ])("%s passes a locked candidate by", async (_, kind, state) => {
    await database.pool.query(`update queue_jobs set ${state}`);
    await lock("no key update");
    const { claim } = await run(executor, {
      items: [],
      request: claimRequest({
        workerId: "other",
        names: ["note"],
        free: JOBS,
        ...kind,
      }),
    });
    expect(claim?.jobs).toHaveLength(99);
    expect(claim?.jobs.some(({ id }) => id === locked())).toBe(false);
  });
});
