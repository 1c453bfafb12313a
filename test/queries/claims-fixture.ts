import type { ClaimRequest } from "../../src/queries/claim-request.js";
import type { ClaimAnswer } from "../../src/queries/claimed-row.js";
import type { Row } from "../../src/queries/executor.js";
import { settleAndClaim } from "../../src/queries/settle-and-claim.js";
import { tableNames } from "../../src/schema/table-names.js";
import { createClaimFloors } from "../../src/worker/claim-floor.js";
import { claimRequest } from "../support/claims.js";
import { createDatabase, type TestDatabase } from "../support/database.js";

/** A database of its own, and claims in it. */
export interface ClaimsFixture {
  readonly database: TestDatabase;
  /** Claims from the beginning of the queue "default", ten jobs unless told otherwise. */
  claim(change?: Partial<ClaimRequest>): Promise<ClaimAnswer>;
}

/** Opens one. */
export async function openClaimsFixture(): Promise<ClaimsFixture> {
  const database = await createDatabase();
  const run = settleAndClaim(tableNames());
  const executor = {
    run: async ({ text, values }: { readonly text: string; readonly values: readonly unknown[] }) =>
      (await database.pool.query<Row>(text, [...values])).rows,
  };
  return {
    database,
    async claim(change = {}) {
      const pairs = createClaimFloors(["default"]).nextPairs();
      const request = claimRequest({ workerId: "worker-1", pairs, ...change });
      const { claim: answer } = await run(executor, { items: [], request });
      if (answer === undefined) throw new Error("A claim was asked for and not answered.");
      return answer;
    },
  };
}
