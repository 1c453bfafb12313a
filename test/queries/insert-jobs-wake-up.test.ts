import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { EnqueueOptions } from "../../src/index.js";
import { type Fixture, openFixture, queue, type Tx } from "./insert-jobs-fixture.js";

let fixture: Fixture;
let listener: pg.Client;
let heard: string[];

beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());
beforeEach(async () => {
  await fixture.database.pool.query("truncate queue_jobs, queue_processed_keys, queue_workers");
  heard = [];
  listener = new pg.Client({ connectionString: fixture.database.url });
  await listener.connect();
  listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
  await listener.query(`listen "${queue.tables.channel}"`);
});
afterEach(() => listener.end());

interface Worker {
  readonly id: string;
  readonly waiting?: boolean;
  readonly queues?: string[] | null;
  readonly names?: string[];
  readonly pollIntervalMs?: number;
  readonly seenSecondsAgo?: number;
}

async function register(...workers: Worker[]): Promise<void> {
  for (const {
    id,
    waiting = true,
    queues = null,
    names = ["report", "keyed"],
    pollIntervalMs = 1_000,
    seenSecondsAgo = 0,
  } of workers) {
    await fixture.database.pool.query(
      `insert into queue_workers (id, waiting, queues, names, poll_interval_ms, seen_at)
       values ($1, $2, $3, $4, $5, now() - $6 * interval '1 second')`,
      [id, waiting, queues, names, pollIntervalMs, seenSecondsAgo],
    );
  }
}

/** Notifications of a commit reach a session before the answer to what it asks next. */
async function heardAfter(enqueue: (tx: Tx) => Promise<unknown>): Promise<string[]> {
  await fixture.db.transaction(async (tx) => {
    await enqueue(tx);
    await listener.query("select 1");
    expect(heard).toEqual([]);
  });
  await listener.query("select 1");
  return heard.toSorted();
}

const ways = {
  enqueue: (options?: EnqueueOptions) => (tx: Tx) =>
    queue.enqueue(tx, "report", { id: "a" }, options),
  "enqueue with a key": (options?: EnqueueOptions) => (tx: Tx) =>
    queue.enqueue(tx, "keyed", { id: "a" }, options),
  enqueueMany:
    (options: EnqueueOptions = {}) =>
    (tx: Tx) =>
      queue.enqueueMany(tx, [{ name: "report", payload: { id: "a" }, options }]),
};

describe.each(["enqueue", "enqueue with a key", "enqueueMany"] as const)("%s", (way) => {
  const enqueue = ways[way];

  test("wakes a waiting worker at the commit, and not before", async () => {
    await register({ id: "w1" });
    expect(await heardAfter(enqueue())).toEqual(["w1"]);
  });

  test.each<[string, Worker]>([
    ["that does not wait", { id: "w", waiting: false }],
    ["of another queue", { id: "w", queues: ["others"] }],
    ["of other jobs", { id: "w", names: ["anything"] }],
    ["that was not seen for 31 seconds", { id: "w", seenSecondsAgo: 31 }],
  ])("does not wake a worker %s", async (_, worker) => {
    await register(worker);
    expect(await heardAfter(enqueue())).toEqual([]);
  });

  test("wakes a worker that names the queue", async () => {
    await register({ id: "w", queues: ["others", "default"] });
    expect(await heardAfter(enqueue())).toEqual(["w"]);
  });

  test("wakes two of many workers, not all", async () => {
    await register(...Array.from({ length: 10 }, (_, index) => ({ id: `w${index}` })));
    expect(await heardAfter(enqueue())).toHaveLength(2);
  });

  test("wakes for a job that is due before the next poll, not for a later one", async () => {
    await register({ id: "slow", pollIntervalMs: 60_000 }, { id: "fast", pollIntervalMs: 1_000 });
    expect(await heardAfter(enqueue({ delayMs: 20_000 }))).toEqual(["slow"]);
    heard = [];
    // Polls are up to a fifth more apart than told.
    expect(await heardAfter(enqueue({ delayMs: 66_000, idempotencyKey: null }))).toEqual(["slow"]);
    heard = [];
    expect(await heardAfter(enqueue({ delayMs: 90_000, idempotencyKey: null }))).toEqual([]);
    expect(
      await heardAfter(enqueue({ runAt: new Date(Date.now() + 90_000), idempotencyKey: null })),
    ).toEqual([]);
  });

  test("wakes nobody when the transaction rolls back", async () => {
    await register({ id: "w" });
    const failure = new Error("no");
    const rolledBack = fixture.db.transaction(async (tx) => {
      await enqueue()(tx);
      throw failure;
    });
    await expect(rolledBack).rejects.toThrow(failure);
    await listener.query("select 1");
    expect(heard).toEqual([]);
  });
});

test("a duplicate wakes nobody", async () => {
  await queue.enqueueNow(fixture.db, "keyed", { id: "a" });
  await register({ id: "w" });
  expect(await heardAfter((tx) => queue.enqueue(tx, "keyed", { id: "a" }))).toEqual([]);
  expect(
    await heardAfter((tx) => queue.enqueueMany(tx, [{ name: "keyed", payload: { id: "a" } }])),
  ).toEqual([]);
});

test("a batch wakes one worker more than it has due jobs, each of them once", async () => {
  await register(...Array.from({ length: 12 }, (_, index) => ({ id: `w${index}` })));
  const due = Array.from(
    { length: 4 },
    (_, index) => ({ name: "report", payload: { id: `${index}` } }) as const,
  );
  const later = due.map((item) => ({ ...item, options: { delayMs: 3_600_000 } }));
  const woken = await heardAfter((tx) => queue.enqueueMany(tx, [...later, ...due, ...later]));
  expect(woken).toHaveLength(5);
  expect(new Set(woken).size).toBe(5);
});

test("a batch wakes workers of each of its queues", async () => {
  await register(
    { id: "a", queues: ["a"] },
    { id: "b", queues: ["b"] },
    { id: "c", queues: ["c"] },
  );
  const items = ["a", "b"].map(
    (name) => ({ name: "report", payload: { id: name }, options: { queue: name } }) as const,
  );
  expect(await heardAfter((tx) => queue.enqueueMany(tx, items))).toEqual(["a", "b"]);
});

test("a large payload, long names and 10,000 jobs do not outgrow a notification", async () => {
  const long = "q".repeat(128);
  await register({ id: "w", queues: [long] });
  const payload = { id: "x".repeat(60_000) };
  expect(await heardAfter((tx) => queue.enqueue(tx, "report", payload, { queue: long }))).toEqual([
    "w",
  ]);
  heard = [];
  const items = Array.from(
    { length: 10_000 },
    () => ({ name: "report", payload: { id: "a" }, options: { queue: long } }) as const,
  );
  expect(await heardAfter((tx) => queue.enqueueMany(tx, items))).toEqual(["w"]);
});
