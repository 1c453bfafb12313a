import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { EnqueueOptions } from "../../src/index.js";
import { type Fixture, openFixture, queue } from "./insert-jobs-fixture.js";

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

const payload = { id: "same" };

const due = fc.oneof(
  fc.constant({}),
  fc.record({ delayMs: fc.integer({ min: 0, max: 400 * 86_400_000 }) }),
  fc.record({
    runAt: fc.date({
      min: new Date("2020-01-01"),
      max: new Date("2100-01-01"),
      noInvalidDate: true,
    }),
  }),
);
const others = fc.record(
  {
    queue: fc.string({
      minLength: 1,
      maxLength: 30,
      unit: fc.constantFrom("a", "Q", "ü", "'", "%"),
    }),
    priority: fc.integer({ min: 0, max: 9 }),
    maxAttempts: fc.integer({ min: 1, max: 1_000 }),
    idempotencyKey: fc.constantFrom("key", null),
  },
  { requiredKeys: [] },
);

/** The row that a way of enqueueing has made, without what differs between any two. */
async function rowOf(enqueue: () => Promise<unknown>) {
  await fixture.database.pool.query("truncate queue_jobs");
  await enqueue();
  const { rows } = await fixture.database.pool.query<Record<string, unknown>>(
    `select *, available_at - created_at as delay from queue_jobs where payload ->> 'id' = 'same'`,
  );
  expect(rows).toHaveLength(1);
  const { id: _id, created_at: _created, available_at, delay, ...row } = rows[0] ?? {};
  return { row, available_at, delay };
}

test("the same options make the same row, whichever way a job is enqueued", async () => {
  const check = async (when: EnqueueOptions, rest: EnqueueOptions) => {
    const options = { ...when, ...rest };
    const item = { name: "keyed", payload, options } as const;
    const other = { name: "report", payload: { id: "other" } } as const;
    for (const db of Object.values(fixture.drivers)) {
      const ways = [
        () => queue.enqueueNow(db, "keyed", payload, options),
        () => db.transaction((tx) => queue.enqueue(tx, "keyed", payload, options)),
        () => db.transaction((tx) => queue.enqueueMany(tx, [item])),
        () => db.transaction((tx) => queue.enqueueMany(tx, [other, item, other])),
      ];
      const made = [];
      for (const way of ways) made.push(await rowOf(way));
      // One that is due at a named time is due then, any other that long after its own enqueue.
      const comparable = made.map(({ row, available_at, delay }) =>
        "runAt" in options ? { row, available_at } : { row, delay },
      );
      for (const each of comparable) expect(each).toEqual(comparable[0]);
    }
  };
  await fc.assert(fc.asyncProperty(due, others, check), { numRuns: 15 });
});
