import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { tableNames } from "../../src/schema/table-names.js";
import { createClaimFloors } from "../../src/worker/claim-floor.js";
import type { TestDatabase } from "../support/database.js";
import { type ClaimsFixture, openClaimsFixture } from "./claims-fixture.js";

let database: TestDatabase;
let claim: ClaimsFixture["claim"];

beforeAll(async () => {
  ({ database, claim } = await openClaimsFixture());
});
afterAll(() => database.drop());
beforeEach(() => database.pool.query("truncate queue_jobs"));

/** Inserts jobs that have been due for `ageSeconds`. */
async function seed(count: number, ageSeconds: number, columns = "", values = ""): Promise<void> {
  await database.pool.query(
    `insert into queue_jobs (queue, name, payload, available_at ${columns})
     select 'default', 'report', '{}', statement_timestamp() - $1 * interval '1 second' ${values}
     from generate_series(1, $2)`,
    [ageSeconds, count],
  );
}

/** The places of jobs, in their order. */
async function places(where: string): Promise<{ atUs: number; id: number }[]> {
  const { rows } = await database.pool.query<{ at: string; id: string }>(
    `select round(extract(epoch from available_at) * 1000000)::bigint as at, id from queue_jobs ${where}
     order by available_at, id`,
  );
  return rows.map(({ at, id }) => ({ atUs: Number(at), id: Number(id) }));
}

const far = { reachMs: null, exclusive: false, suspects: 1 };
const near = { reachMs: 10_000, exclusive: false, suspects: 1 };
const expired = [
  ", status, attempts, lease_until, lease_version, locked_by",
  ", 'running', 1, statement_timestamp() - interval '1 second', 1, 'worker-0'",
] as const;

describe.each([
  ["a claim", {}],
  ["a prompt claim", { isPrompt: true }],
])("%s", (_, kind) => {
  test("starts an attempt, raises the lease version and takes a lease", async () => {
    await seed(1, 5);
    const { jobs } = await claim(kind);
    expect(jobs).toMatchObject([{ attempts: 1, leaseVersion: 1, isRecovered: false }]);
    const { rows } = await database.pool.query(
      `select status, attempts, locked_by, lease_until > statement_timestamp() + interval '29 seconds' as is_held
       from queue_jobs`,
    );
    expect(rows).toEqual([
      { status: "running", attempts: 1, locked_by: "worker-1", is_held: true },
    ]);
  });

  test("takes no more than there is room for, the longest due first", async () => {
    await seed(5, 5);
    await seed(5, 50);
    const { jobs } = await claim({ ...kind, free: 5 });
    const ids = jobs.map((job) => job.id).toSorted((a, b) => a - b);
    const { rows } = await database.pool.query<{ id: string }>(
      "select id from queue_jobs order by available_at, id limit 5",
    );
    expect(ids).toEqual(rows.map((row) => Number(row.id)));
  });

  test("leaves alone what is not due, and queues that are paused", async () => {
    await seed(1, -60);
    await database.pool.query(
      "insert into queue_controls (queue, paused_at) values ('held', now()) on conflict do nothing",
    );
    await seed(2, 5);
    await database.pool.query(
      "update queue_jobs set queue = 'held' where id = (select max(id) from queue_jobs)",
    );
    const pairs = createClaimFloors(["held", "default"]).nextPairs();
    const { jobs } = await claim({ ...kind, pairs });
    expect(jobs).toMatchObject([{ queue: "default" }]);
  });

  test("leaves alone names that this worker does not know", async () => {
    await seed(3, 5);
    expect((await claim({ ...kind, names: ["other"] })).jobs).toEqual([]);
    expect((await claim({ ...kind, names: ["report"] })).jobs).toHaveLength(3);
  });

  test("gives each name its own lease", async () => {
    await seed(1, 5);
    await claim({ ...kind, leaseMsByName: { report: 3_600_000 } });
    const { rows } = await database.pool.query(
      "select lease_until > statement_timestamp() + interval '59 minutes' as is_long from queue_jobs",
    );
    expect(rows).toEqual([{ is_long: true }]);
  });

  test("does not recover expired leases: that is a sweep's", async () => {
    await seed(1, 5, ...expired);
    expect((await claim(kind)).jobs).toEqual([]);
  });

  test("hands out jobs in their order, the most urgent first", async () => {
    await seed(2, 5, ", priority", ", 7");
    await seed(2, 1);
    await seed(2, 50);
    const { jobs } = await claim(kind);
    expect(jobs.map(({ priority }) => priority)).toEqual([5, 5, 5, 5, 7, 7]);
    const ages = jobs.map(({ place }) => place.atUs);
    expect(ages.slice(0, 4)).toEqual(ages.slice(0, 4).toSorted((a, b) => a - b));
  });

  test("leaves alone what is at or below its floor", async () => {
    await seed(3, 5);
    const floor = (await places(""))[1] ?? null;
    const { jobs } = await claim({ ...kind, pairs: [{ queue: "default", priority: 5, floor }] });
    expect(jobs).toHaveLength(1);
  });
});

describe("a prompt claim", () => {
  test("says whether it was full", async () => {
    await seed(3, 5);
    expect(await claim({ isPrompt: true, free: 2 })).toMatchObject({ isFull: true });
    expect(await claim({ isPrompt: true, free: 2 })).toMatchObject({ isFull: false });
  });

  test("takes jobs that have been tried, and such as may be tried once: its slots are free", async () => {
    await seed(1, 5, ", attempts", ", 1");
    await seed(1, 5, ", max_attempts", ", 1");
    expect((await claim({ isPrompt: true })).jobs).toHaveLength(2);
  });
});

describe("a plain claim", () => {
  test("fetches ahead only jobs that have never been tried and may be tried again", async () => {
    await seed(4, 50, ", attempts", ", 1");
    await seed(4, 40, ", max_attempts", ", 1");
    await seed(4, 30);
    const { jobs } = await claim({ free: 2, ahead: 10 });
    expect(jobs.filter((job) => job.attempts === 2)).toHaveLength(2);
    expect(jobs.filter((job) => job.maxAttempts === 1)).toHaveLength(0);
    expect(jobs.filter((job) => job.attempts === 1 && job.maxAttempts > 1)).toHaveLength(4);
  });

  test("tells of the first job that is long due and got no free slot", async () => {
    await seed(3, 50, ", attempts", ", 1");
    await seed(4, 40);
    const { jobs, passedOver } = await claim({ free: 1, ahead: 10 });
    expect(jobs).toHaveLength(5);
    const [second] = await places("where lease_until is null");
    expect(passedOver).toEqual({ place: second, priority: 5, isOnlySwept: false });
    expect((await claim({ free: 2, ahead: 10 })).passedOver).toBeUndefined();
  });

  test("gives a job half a second before it is said to be passed over", async () => {
    await seed(3, 0, ", attempts", ", 1");
    expect((await claim({ ahead: 10, free: 0 })).passedOver).toBeUndefined();
  });

  test("sees a job that is passed over beyond what it wants, if it peeks", async () => {
    await seed(3, 50, ", attempts", ", 1");
    expect((await claim({ free: 1 })).passedOver).toBeUndefined();
    const { jobs, passedOver } = await claim({ free: 1, peeks: true });
    expect([jobs.length, passedOver?.isOnlySwept]).toEqual([1, false]);
  });

  test("says that it was full, also when it could take none of what it saw", async () => {
    await seed(3, 50, ", attempts", ", 1");
    expect(await claim({ free: 0, ahead: 3 })).toMatchObject({ jobs: [], isFull: true });
    expect(await claim({ free: 4 })).toMatchObject({ isFull: false });
  });

  test("leaves alone what is not due, and tells when it will be", async () => {
    await seed(1, -60);
    const answer = await claim({ hasBacklog: false });
    expect(answer.jobs).toEqual([]);
    const dueInMs = ((answer.nextDueUs ?? 0) - answer.nowUs) / 1_000;
    expect(dueInMs).toBeGreaterThan(50_000);
    expect(dueInMs).toBeLessThanOrEqual(60_000);
  });

  test("under a backlog tells when the next job is due only where it finds fewer than it wants: the last of it", async () => {
    await seed(2, 5);
    await seed(1, -60);
    expect((await claim({ free: 1, hasBacklog: true })).nextDueUs).toBeNull();
    const { jobs, nextDueUs } = await claim({ free: 2, hasBacklog: true });
    expect(jobs).toHaveLength(1);
    expect(nextDueUs).not.toBeNull();
  });
});

describe("a sweep", () => {
  test("recovers a job whose lease ran out and records why", async () => {
    await seed(1, 5, ...expired);
    const { jobs, hasSwept } = await claim({ sweep: far });
    expect(hasSwept).toBe(true);
    expect(jobs).toMatchObject([
      { attempts: 2, leaseVersion: 2, expiredLeases: 1, isRecovered: true },
    ]);
    const { rows } = await database.pool.query(
      "select error_history->0->>'code' as code, error_history->0->>'attempt' as attempt from queue_jobs",
    );
    expect(rows).toEqual([{ code: "LEASE_EXPIRED", attempt: "1" }]);
  });

  test("fails a job that has no attempt left, once its lease ran out", async () => {
    await seed(1, 5, `${expired[0]}, max_attempts`, `${expired[1]}, 1`);
    const { jobs, ended } = await claim({ sweep: far });
    expect(jobs).toEqual([]);
    expect(ended).toHaveLength(1);
    const { rows } = await database.pool.query(
      "select status, outcome, attempts, lease_until, finished_at is not null as is_over from queue_jobs",
    );
    expect(rows).toEqual([
      { status: "failed", outcome: "failed", attempts: 1, lease_until: null, is_over: true },
    ]);
  });

  test("cancels a lost job that somebody asked to cancel, instead of running it again", async () => {
    await seed(1, 5, `${expired[0]}, cancel_requested_at`, `${expired[1]}, statement_timestamp()`);
    const { jobs, ended } = await claim({ free: 0, ahead: 1, sweep: far });
    expect([jobs, ended]).toMatchObject([[], [{ outcome: "cancelled", leaseVersion: 2 }]]);
    const { rows } = await database.pool.query(
      "select status, outcome, attempts, lease_until, finished_at is not null as is_over from queue_jobs",
    );
    expect(rows).toEqual([
      { status: "cancelled", outcome: "cancelled", attempts: 1, lease_until: null, is_over: true },
    ]);
  });

  test("leaves a job alone whose lease still holds, even at its last attempt", async () => {
    const held = expired[1].replace("- interval '1 second'", "+ interval '1 minute'");
    await seed(1, 5, `${expired[0]}, max_attempts`, `${held}, 1`);
    const { jobs, ended } = await claim({ sweep: far });
    expect([jobs, ended]).toEqual([[], []]);
  });

  test("takes one job at a time of those whose lease ran out before", async () => {
    await seed(5, 5, `${expired[0]}, expired_leases`, `${expired[1]}, 1`);
    await seed(3, 5, ...expired);
    // They are looked for below the floor: above it a whole backlog would be walked for each.
    const floor = { atUs: Date.now() * 1_000, id: 0 };
    const pairs = createClaimFloors(["default"])
      .nextPairs()
      .map((pair) => ({ ...pair, floor }));
    const { jobs } = await claim({ pairs, sweep: far });
    expect(jobs.filter((job) => job.expiredLeases === 2)).toHaveLength(1);
    expect(jobs.filter((job) => job.expiredLeases === 1)).toHaveLength(3);
    const again = await claim({ pairs, sweep: { ...far, suspects: 0 } });
    expect(again.jobs).toEqual([]);
  });

  test("takes no more than is wanted, a suspect among them", async () => {
    await seed(1, 50, `${expired[0]}, expired_leases`, `${expired[1]}, 1`);
    await seed(9, 40);
    const floor = { atUs: Date.now() * 1_000, id: 0 };
    const pairs = createClaimFloors(["default"])
      .nextPairs()
      .map((pair) => ({ ...pair, floor }));
    const { jobs } = await claim({ pairs, free: 1, ahead: 4, sweep: far });
    expect(jobs.filter((job) => job.expiredLeases === 2)).toHaveLength(1);
    expect(jobs).toHaveLength(5);
  });

  test("tells of lost jobs below the floor before others, and lets none wait in line", async () => {
    await seed(3, 50, ...expired);
    await seed(4, 40);
    await seed(1, 45, ", attempts", ", 1");
    const floor = { atUs: (Date.now() - 47_000) * 1_000, id: 0 };
    const pairs = createClaimFloors(["default"])
      .nextPairs()
      .map((pair) => ({ ...pair, floor }));
    const { jobs, passedOver } = await claim({ pairs, free: 1, ahead: 10, sweep: far });
    expect(jobs.filter((job) => job.isRecovered)).toHaveLength(1);
    const [first] = await places("where lease_until < statement_timestamp()");
    expect(passedOver).toEqual({ place: first, priority: 5, isOnlySwept: true });
  });

  test("takes lost jobs of one queue before what another has above its floor", async () => {
    await seed(9, 40);
    await database.pool.query("update queue_jobs set queue = 'other'");
    await seed(2, 50, ...expired);
    const floor = { atUs: (Date.now() - 45_000) * 1_000, id: 0 };
    const pairs = ["other", "default"].map((queue) => ({ queue, priority: 5, floor }));
    const { jobs, passedOver } = await claim({ pairs, free: 1, ahead: 2, sweep: far });
    expect(jobs.map(({ queue }) => queue).sort()).toEqual(["default", "other"]);
    expect(passedOver?.isOnlySwept).toBe(true);
  });

  test("takes what a queue without a floor holds before what another has above its own", async () => {
    await seed(9, 40);
    await database.pool.query("update queue_jobs set queue = 'other'");
    await seed(2, 50, ...expired);
    const floor = { atUs: (Date.now() - 45_000) * 1_000, id: 0 };
    const pairs = [
      { queue: "other", priority: 5, floor },
      { queue: "default", priority: 5, floor: null },
    ];
    const { jobs, passedOver } = await claim({ pairs, free: 2, sweep: far });
    expect(jobs.map(({ queue }) => queue)).toEqual(["default", "default"]);
    expect(passedOver).toBeUndefined();
  });

  test("tells that only a sweep sees a lost job, wherever the floor is", async () => {
    await seed(2, 50, ...expired);
    await seed(2, 40);
    const { jobs, passedOver } = await claim({ free: 1, ahead: 3, sweep: far });
    expect(jobs.filter((job) => job.isRecovered)).toHaveLength(1);
    expect(passedOver?.isOnlySwept).toBe(true);
  });

  test("ends without a slot what has no attempt left", async () => {
    await seed(3, 50, `${expired[0]}, max_attempts`, `${expired[1]}, 1`);
    const answer = await claim({ free: 0, ahead: 10, sweep: far });
    expect(answer.ended).toHaveLength(3);
    expect(answer.passedOver).toBeUndefined();
  });

  test("finds below the floor what committed late", async () => {
    await seed(3, 5);
    const floor = { atUs: Date.now() * 1_000, id: 0 };
    const pairs = createClaimFloors(["default"])
      .nextPairs()
      .map((pair) => ({ ...pair, floor }));
    expect((await claim({ pairs })).jobs).toEqual([]);
    expect((await claim({ pairs, sweep: near })).jobs).toHaveLength(3);
  });

  test("goes on from the floor where the backlog is older than its reach", async () => {
    await seed(300, 60);
    const floors = createClaimFloors(["default"]);
    for (let round = 0; round < 3; round += 1) {
      const pairs = floors.nextPairs();
      const answer = await claim({ pairs, free: 100, sweep: near });
      expect(answer.jobs).toHaveLength(100);
      floors.learn(pairs, answer);
    }
    expect((await claim({ pairs: floors.nextPairs(), sweep: far })).jobs).toEqual([]);
  });

  /** Holds the lock of sweeps while `act` runs. */
  async function whileAnotherSweeps(act: () => Promise<void>): Promise<void> {
    const other = await database.pool.connect();
    try {
      await other.query("begin");
      await other.query("select pg_advisory_xact_lock($1)", [tableNames().sweepLock]);
      await act();
    } finally {
      await other.query("rollback");
      other.release();
    }
  }

  test("takes queues in their turns where it gives way, whether they have a floor or not", async () => {
    await seed(4, 40);
    await database.pool.query("update queue_jobs set queue = 'other'");
    await seed(4, 50);
    const floor = { atUs: (Date.now() - 45_000) * 1_000, id: 0 };
    const pairs = [
      { queue: "other", priority: 5, floor },
      { queue: "default", priority: 5, floor: null },
    ];
    await whileAnotherSweeps(async () => {
      const { jobs } = await claim({ pairs, free: 5, sweep: { ...far, exclusive: true } });
      expect(jobs.filter(({ queue }) => queue === "other")).toHaveLength(4);
    });
  });

  test("gives way, when told to, while another one sweeps", async () => {
    await seed(2, 5, ...expired);
    await whileAnotherSweeps(async () => {
      const given = await claim({ sweep: { ...far, exclusive: true } });
      expect([given.hasSwept, given.jobs]).toEqual([false, []]);
      const taken = await claim({ sweep: far });
      expect([taken.hasSwept, taken.jobs.length]).toEqual([true, 2]);
    });
  });
});
