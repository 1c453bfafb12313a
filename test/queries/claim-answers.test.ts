import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ClaimAnswer } from "../../src/queries/claimed-row.js";
import type { TestDatabase } from "../support/database.js";
import { type ClaimsFixture, openClaimsFixture } from "./claims-fixture.js";

let database: TestDatabase;
let claim: ClaimsFixture["claim"];

beforeAll(async () => {
  const fixture = await openClaimsFixture();
  database = fixture.database;
  claim = (change) => fixture.claim({ peeks: true, ...change });
});
afterAll(() => database.drop());
beforeEach(() => database.pool.query("truncate queue_jobs"));

interface Seed {
  readonly dueInSeconds: number;
  readonly count?: number;
  readonly name?: string;
  readonly priority?: number;
  readonly attempts?: number;
}

/** Inserts jobs that become due a second after each other. */
async function seed({ dueInSeconds, count = 1, ...job }: Seed): Promise<void> {
  const { name = "report", priority = 5, attempts = 0 } = job;
  await database.pool.query(
    `insert into queue_jobs (queue, name, payload, priority, attempts, available_at)
     select 'default', $1, '{}', $2, $3, statement_timestamp() + ($4 + n - 1) * interval '1 second'
     from generate_series(1, $5::int) as n`,
    [name, priority, attempts, dueInSeconds, count],
  );
}

const far = { reachMs: null, exclusive: false, suspects: 1 };
const dueInSeconds = ({ nextDueUs, nowUs }: ClaimAnswer): number =>
  Math.round(((nextDueUs ?? Number.NaN) - nowUs) / 1_000_000);

describe("what a claim tells of jobs that it left", () => {
  test.each([
    ["plain", undefined],
    ["with a sweep", far],
  ])("a due job that needs a free slot is told of at once (%s)", async (_, sweep) => {
    await seed({ dueInSeconds: 0, attempts: 1 });
    const answer = await claim({ free: 0, ahead: 5, sweep });
    expect(answer).toMatchObject({ jobs: [], leavesDue: true, passedOver: undefined });
    expect(await claim({ free: 1, sweep })).toMatchObject({ leavesDue: false });
  });

  test("one that may wait ahead is not", async () => {
    await seed({ dueInSeconds: 0, count: 3 });
    expect(await claim({ free: 0, ahead: 2 })).toMatchObject({ leavesDue: false });
  });

  test("once it has been due for half a second, it is passed over, with its priority", async () => {
    await seed({ dueInSeconds: -1, attempts: 1, priority: 7 });
    await seed({ dueInSeconds: -1, attempts: 0, priority: 2 });
    const answer = await claim({ free: 1, ahead: 5 });
    expect(answer.jobs).toHaveLength(1);
    expect(answer.passedOver).toMatchObject({ priority: 7, isOnlySwept: false });
  });
});

describe("when the next job is due", () => {
  test("those of names that are not served do not count", async () => {
    await seed({ dueInSeconds: 10, count: 50, name: "another" });
    await seed({ dueInSeconds: 500 });
    expect(dueInSeconds(await claim())).toBe(500);
  });

  test("behind a hundred of them it is looked for again when the last of these is due", async () => {
    await seed({ dueInSeconds: 1_001, count: 300, name: "another" });
    await seed({ dueInSeconds: 5_000 });
    expect(dueInSeconds(await claim())).toBe(1_100);
  });

  test("the earliest of all priorities counts", async () => {
    await seed({ dueInSeconds: 300, priority: 1 });
    await seed({ dueInSeconds: 200, priority: 8 });
    expect(dueInSeconds(await claim())).toBe(200);
    await database.pool.query("truncate queue_jobs");
    expect((await claim()).nextDueUs).toBeNull();
  });
});

test("a lost job whose errors are no list keeps no other from being recovered", async () => {
  await seed({ dueInSeconds: -60, count: 3, attempts: 1 });
  await database.pool.query(
    `update queue_jobs set status = 'running', lease_version = 1,
       lease_until = statement_timestamp() - interval '1 second'`,
  );
  await database.pool.query(
    "update queue_jobs set error_history = '{}' where id = (select min(id) from queue_jobs)",
  );
  const { jobs } = await claim({ sweep: far });
  expect(jobs).toHaveLength(3);
  const { rows } = await database.pool.query(
    "select jsonb_array_length(error_history) as errors from queue_jobs",
  );
  expect(rows).toEqual([{ errors: 1 }, { errors: 1 }, { errors: 1 }]);
});
