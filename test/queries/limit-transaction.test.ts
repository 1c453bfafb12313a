import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { afterAll, beforeAll, expect, test } from "vitest";
import { drizzleExecutor } from "../../src/queries/executor.js";
import { limitTransaction } from "../../src/queries/limit-transaction.js";
import { createDatabase, type TestDatabase } from "../support/database.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database.drop());

/** What both limits are inside a transaction that began with `own` and was then limited. */
async function limitsAfter(own: string, limitMs: number): Promise<unknown> {
  return drizzle(database.pool).transaction(async (tx) => {
    await tx.execute(sql.raw(`set local statement_timeout = '${own}'`));
    await tx.execute(sql.raw(`set local idle_in_transaction_session_timeout = '${own}'`));
    await limitTransaction(drizzleExecutor(tx), limitMs);
    const { rows } = await tx.execute(
      sql`select current_setting('statement_timeout') as statement,
        current_setting('idle_in_transaction_session_timeout') as idle`,
    );
    return rows[0];
  });
}

test.each([
  ["0", 12_345, "12345ms"],
  ["1min", 12_345, "12345ms"],
  ["1d", 12_344.4, "12345ms"],
  ["5s", 12_345, "5s"],
  ["250ms", 12_345, "250ms"],
])("of the app's %s and ours of %s ms the smaller holds", async (own, limitMs, expected) => {
  expect(await limitsAfter(own, limitMs)).toEqual({ statement: expected, idle: expected });
});

test("nothing of it outlives the transaction", async () => {
  await limitsAfter("0", 1_000);
  const { rows } = await database.pool.query("show statement_timeout");
  expect(rows).toEqual([{ statement_timeout: "0" }]);
});
