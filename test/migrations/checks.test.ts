import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase, type TestDatabase } from "../support/database.js";

/** Columns of a row beside its queue, name and payload, as SQL expressions. */
type Columns = Readonly<Record<string, string>>;

const running = { status: "'running'", lease_until: "now()" };
const done = { status: "'done'", outcome: "'done'", finished_at: "now()" };

describe("the checks of the jobs table", () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database.drop());

  function insert(columns: Columns): Promise<unknown> {
    const all: Columns = { queue: "'default'", name: "'report'", payload: "'{}'", ...columns };
    const names = Object.keys(all).join(", ");
    return database.pool.query(
      `insert into queue_jobs (${names}) values (${Object.values(all).join(", ")})`,
    );
  }

  test.each<[string, Columns]>([
    ["a queued job with every default", {}],
    ["a running job", running],
    ["a job that is done", done],
    ["a failed job", { ...done, status: "'failed'", outcome: "'failed'" }],
    ["a cancelled job", { ...done, status: "'cancelled'", outcome: "'cancelled'" }],
    ["its last attempt", { ...running, attempts: "3", max_attempts: "3" }],
    ["the first priority and all blockers", { priority: "0", blockers: "7" }],
    ["the last priority", { priority: "9" }],
  ])("accept %s", async (_, columns) => {
    await expect(insert(columns)).resolves.toMatchObject({ rowCount: 1 });
  });

  test.each<[string, string, Columns]>([
    ["status", "an unknown status", { status: "'retrying'" }],
    ["outcome_final", "a final status without outcome", { status: "'done'" }],
    ["outcome_final", "an outcome before the end", { outcome: "'queued'", finished_at: "now()" }],
    ["outcome_status", "an outcome unlike its status", { ...done, outcome: "'failed'" }],
    ["finished_at", "an end without its time", { status: "'done'", outcome: "'done'" }],
    ["finished_at", "the time of an end that was not", { finished_at: "now()" }],
    ["lease_until", "a running job without lease", { status: "'running'" }],
    ["lease_until", "a lease on a queued job", { lease_until: "now()" }],
    ["lease_until", "a lease on a finished job", { ...done, lease_until: "now()" }],
    ["attempts", "more attempts than allowed", { attempts: "4", max_attempts: "3" }],
    ["attempts", "negative attempts", { attempts: "-1" }],
    ["max_attempts", "no attempt at all", { max_attempts: "0" }],
    ["priority", "a priority below 0", { priority: "-1" }],
    ["priority", "a priority above 9", { priority: "10" }],
    ["blockers", "negative blockers", { blockers: "-1" }],
    ["blockers", "an unknown blocker", { blockers: "8" }],
  ])("refuse by %s %s", async (rule, _, columns) => {
    await expect(insert(columns)).rejects.toMatchObject({
      code: "23514",
      constraint: `queue_jobs_${rule}_check`,
    });
  });

  test("leave a second job with the same name and key to the unique index", async () => {
    const keyed = { idempotency_key: "'report-1'" };
    await insert(keyed);
    await insert({ ...keyed, name: "'email'" });
    await expect(insert(keyed)).rejects.toMatchObject({
      code: "23505",
      constraint: "queue_jobs_name_key_unique",
    });
  });
});
