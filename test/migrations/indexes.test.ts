import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { indexedColumns } from "./catalog.js";

/** What a claim, renewal, release or retry changes. */
const CLAIM_COLUMNS = new Set([
  "status",
  "lease_until",
  "lease_version",
  "locked_by",
  "attempts",
  "started_at",
  "expired_leases",
  "error_history",
  "last_error",
]);

/** A sentence for each index of the jobs table that would keep claims from being HOT. */
async function offences({ pool }: TestDatabase): Promise<string[]> {
  const columns = await indexedColumns(pool, "queue_jobs");
  return columns
    .filter(({ column }) => CLAIM_COLUMNS.has(column))
    .map(
      ({ index, column }) =>
        `Index ${index} uses ${column}, which a claim changes: each claim would write to every index.`,
    );
}

describe("the indexes of the jobs table", () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database.drop());

  test("are these, over these columns", async () => {
    expect(await indexedColumns(database.pool, "queue_jobs")).toEqual(
      Object.entries({
        queue_jobs_name_key_unique: ["idempotency_key", "name"],
        queue_jobs_outcome_idx: ["finished_at", "id", "outcome"],
        queue_jobs_pkey: ["id"],
        queue_jobs_ready_idx: [
          "available_at",
          "blockers",
          "finished_at",
          "id",
          "priority",
          "queue",
        ],
      }).flatMap(([index, columns]) => columns.map((column) => ({ index, column }))),
    );
  });

  test("use no column that a claim changes", async () => {
    expect(await offences(database)).toEqual([]);
  });

  test.each([
    ["status", "key", "(status)"],
    ["locked_by", "expression", "(lower(locked_by))"],
    ["status", "predicate", "(id) where status = 'running'"],
    ["lease_until", "payload", "(id) include (lease_until)"],
  ])("would be reported if %s were the %s of one", async (column, _, definition) => {
    await database.pool.query(`create index app_idx on queue_jobs ${definition}`);
    try {
      expect(await offences(database)).toEqual([
        `Index app_idx uses ${column}, which a claim changes: each claim would write to every index.`,
      ]);
    } finally {
      await database.pool.query("drop index app_idx");
    }
  });
});
