import { queueExtrasSql } from "drizzle-queue/schema";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/queries/claimed-row.js";
import type { Executor, Row } from "../../src/queries/executor.js";
import { renewLeases } from "../../src/queries/renew-leases.js";
import { settleAndClaim } from "../../src/queries/settle-and-claim.js";
import { tableNames } from "../../src/schema/table-names.js";
import { claimRequest } from "../support/claims.js";
import { createDatabaseOn, type TestDatabase } from "../support/database.js";
import { type PostgresServer, startPostgresServer } from "../support/postgres-server.js";
import { waitUntil } from "../support/wait-until.js";

const JOBS = 4_000;
const BATCH = 200;
const RENEWALS = 3;

let server: PostgresServer;
let database: TestDatabase;

beforeAll(async () => {
  // A server of its own: the analyze of an autovacuum holds a snapshot, too.
  server = await startPostgresServer({ settings: { autovacuum: "off" } });
  database = await createDatabaseOn(server.url);
});

afterAll(async () => {
  await database.drop();
  await server.dispose();
});

/** How many updates the table has seen, and how many of them touched no index. */
async function updates(): Promise<{ all: number; hot: number }> {
  const { rows } = await database.pool.query<{ all: number; hot: number }>(
    `select n_tup_upd::int as all, n_tup_hot_upd::int as hot
       from pg_stat_user_tables where relname = 'queue_jobs'`,
  );
  return rows[0] ?? { all: -1, hot: -1 };
}

test("at least 95 % of claims and renewals touch no index, with the optional settings and no snapshot held", async () => {
  for (const statement of queueExtrasSql().split("--> statement-breakpoint")) {
    await database.pool.query(statement);
  }
  await database.pool.query(
    `insert into queue_jobs (queue, name, payload, idempotency_key, input_hash)
       select 'default', 'note', jsonb_build_object('id', gen_random_uuid()), 'key ' || n, sha256(n::text::bytea)
       from generate_series(1, ${JOBS}) as n`,
  );
  const executor: Executor = {
    run: async ({ text, values }): Promise<readonly Row[]> =>
      (await database.pool.query<Row>(text, [...values])).rows,
  };
  const run = settleAndClaim(tableNames());
  const renew = renewLeases(tableNames());
  const held: ClaimedJob[] = [];
  for (let taken = 0; taken < JOBS; taken += BATCH) {
    const { claim } = await run(executor, {
      items: [],
      request: claimRequest({
        workerId: "host:12345:abcdef012345",
        names: ["note"],
        free: BATCH,
        hasBacklog: true,
      }),
    });
    held.push(...(claim?.jobs ?? []));
  }
  expect(held).toHaveLength(JOBS);
  for (let renewal = 1; renewal <= RENEWALS; renewal += 1) {
    for (let first = 0; first < JOBS; first += BATCH) {
      const leases = held
        .slice(first, first + BATCH)
        .map(({ id, leaseVersion }) => ({ id, leaseVersion, leaseMs: 30_000 }));
      expect((await renew(executor, leases)).size).toBe(0);
    }
  }
  const expected = JOBS * (1 + RENEWALS);
  await waitUntil("the statistics have come in", async () => (await updates()).all >= expected, {
    timeoutMs: 15_000,
  });
  const { all, hot } = await updates();
  expect(all).toBe(expected);
  expect(hot / all).toBeGreaterThanOrEqual(0.95);
});
