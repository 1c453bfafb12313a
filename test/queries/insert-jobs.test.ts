import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { EnqueueOptions } from "../../src/index.js";
import { countingStatements, type Fixture, openFixture, queue } from "./insert-jobs-fixture.js";

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());
beforeEach(() =>
  fixture.database.pool.query("truncate queue_jobs, queue_processed_keys, queue_workers"),
);

describe.each(["node-postgres", "postgres.js"] as const)("with %s", (driver) => {
  test("one job is one statement and one row with the definition's settings", async () => {
    const answer = await fixture.drivers[driver].transaction(async (transaction) => {
      const { tx, sent } = countingStatements(transaction);
      const enqueued = await queue.enqueue(tx, "anything", { a: [1, "10.5", null, true] });
      expect(sent()).toBe(1);
      return enqueued;
    });
    const rows = await fixture.rows();
    expect(answer).toEqual({
      id: rows[0]?.["id"],
      name: "anything",
      created: true,
      status: "queued",
    });
    expect(rows).toEqual([
      expect.objectContaining({
        queue: "misc",
        payload: { a: [1, "10.5", null, true] },
        type: "object",
        priority: 7,
        max_attempts: 2,
        attempts: 0,
        status: "queued",
        delay_ms: 0,
        idempotency_key: null,
        input_hash: null,
      }),
    ]);
  });

  test.each<[unknown, string]>([
    ["10.5", "string"],
    ['{"a":1}', "string"],
    [10.5, "number"],
    [true, "boolean"],
    [[], "array"],
    [[1, [2]], "array"],
    [null, "null"],
    [undefined, "null"],
  ])("the payload %j is stored as the JSON %s, singly and in a batch", async (payload, type) => {
    await fixture.drivers[driver].transaction(async (tx) => {
      await queue.enqueue(tx, "anything", payload);
      await queue.enqueueMany(tx, [{ name: "anything", payload }]);
    });
    const rows = await fixture.rows();
    expect(rows.map((row) => row["type"])).toEqual([type, type]);
    expect(rows.map((row) => row["payload"])).toEqual([payload ?? null, payload ?? null]);
  });

  test.each(["constructor", "__proto__"] as const)(
    "a job called %s is like any other",
    async (name) => {
      const payload: unknown = JSON.parse(
        '{"__proto__": {"x": 1}, "quote\'s": "\\"; drop table queue_jobs; --"}',
      );
      await fixture.drivers[driver].transaction((tx) =>
        queue.enqueue(tx, name as "constructor", payload),
      );
      const rows = await fixture.rows();
      expect(rows).toEqual([expect.objectContaining({ name })]);
      expect(JSON.stringify(rows[0]?.["payload"])).toContain("__proto__");
    },
  );

  test.each<[string, EnqueueOptions]>([
    ["none", {}],
    ["a delay", { delayMs: 90_000.5 }],
    ["an instant", { runAt: new Date("2031-02-03T04:05:06.789Z") }],
    ["an instant in the past", { runAt: new Date("1970-01-01T00:00:00Z") }],
    [
      "everything",
      {
        priority: 0,
        queue: 'o\'clock "q" 🙂',
        maxAttempts: 1,
        idempotencyKey: ["a'", 1],
        delayMs: 5,
      },
    ],
    ["no key", { idempotencyKey: null }],
    ["a hostile key", { idempotencyKey: `$1 '; select "x" -- \\ ${"k".repeat(400)}` }],
  ])("each way in honours the options alike: %s", async (_, options) => {
    const db = fixture.drivers[driver];
    const ways = [
      () => db.transaction((tx) => queue.enqueue(tx, "keyed", { id: "k" }, options)),
      () =>
        db.transaction((tx) =>
          queue.enqueueMany(tx, [{ name: "keyed", payload: { id: "k" }, options }]),
        ),
      () =>
        db.transaction((tx) =>
          queue.enqueueMany(tx, [
            {
              name: "anything",
              payload: 1,
              options: { priority: 9, delayMs: 7, idempotencyKey: "z" },
            },
            { name: "keyed", payload: { id: "k" }, options },
          ]),
        ),
      () => queue.enqueueNow(db, "keyed", { id: "k" }, options),
    ];
    const found: unknown[] = [];
    for (const enqueue of ways) {
      await fixture.database.pool.query("truncate queue_jobs");
      await enqueue();
      const [row] = await fixture.rows("name = 'keyed'");
      const { id, age_ms, available_ms, delay_ms, ...rest } = row ?? {};
      expect(id).toBeTypeOf("number");
      expect(age_ms).toBeLessThan(10_000);
      const dueMs = options.runAt?.getTime() ?? Number(available_ms);
      expect(available_ms).toBe(dueMs);
      const delayMs = options.runAt === undefined ? (options.delayMs ?? 0) : Number(delay_ms);
      expect(delay_ms).toBeCloseTo(delayMs, 1);
      found.push(rest);
    }
    expect(found).toEqual([found[0], found[0], found[0], found[0]]);
    expect(found[0]).toMatchObject({
      queue: options.queue ?? "default",
      priority: options.priority ?? 5,
      max_attempts: options.maxAttempts ?? 10,
    });
  });

  test("10,000 jobs are one statement, answered and numbered in their order", async () => {
    const items = Array.from({ length: 10_000 }, (_, index) =>
      index % 3 === 0
        ? ({ name: "keyed", payload: { id: `k${9_999 - index}` } } as const)
        : ({
            name: "report",
            payload: { id: `r${index}` },
            options: { priority: index % 10 },
          } as const),
    );
    const answers = await fixture.drivers[driver].transaction(async (transaction) => {
      const { tx, sent } = countingStatements(transaction);
      const enqueued = await queue.enqueueMany(tx, items);
      expect(sent()).toBe(1);
      return enqueued;
    });
    const rows = await fixture.rows();
    expect(rows).toHaveLength(10_000);
    expect(answers.map(({ id }) => id)).toEqual(rows.map((row) => row["id"]));
    expect(answers.every(({ created }) => created)).toBe(true);
    expect(rows.map((row) => (row["payload"] as { id: string }).id)).toEqual(
      items.map(({ payload }) => payload.id),
    );
  });

  test("so are 10,000 jobs without a key, while another session draws numbers", async () => {
    const batch = (of: string) =>
      Array.from(
        { length: 10_000 },
        (_, index) => ({ name: "report", payload: { id: `${of}${index}` } }) as const,
      );
    const enqueue = (of: string) =>
      fixture.drivers[driver].transaction(async (transaction) => {
        const { tx, sent } = countingStatements(transaction);
        const enqueued = await queue.enqueueMany(tx, batch(of));
        expect(sent()).toBe(1);
        return enqueued;
      });
    const [a, b] = await Promise.all([enqueue("a"), enqueue("b")]);
    const rows = await fixture.rows();
    expect(rows).toHaveLength(20_000);
    const payloadOf = new Map(
      rows.map((row) => [row["id"], (row["payload"] as { id: string }).id]),
    );
    for (const [of, answers] of [["a", a] as const, ["b", b] as const]) {
      const ids = answers.map(({ id }) => id);
      expect(ids).toEqual(ids.toSorted((left, right) => left - right));
      expect(ids.map((id) => payloadOf.get(id))).toEqual(
        batch(of).map(({ payload }) => payload.id),
      );
      expect(answers.every(({ created, status }) => created && status === "queued")).toBe(true);
    }
  });

  test.each([null, "k"])("each job of a batch keeps its own options, keys: %s", async (key) => {
    const runAt = new Date("2031-02-03T04:05:06.789Z");
    const all: readonly EnqueueOptions[] = [
      { runAt, queue: 'o\'clock "q" 🙂', priority: 0, maxAttempts: 1 },
      {},
      { delayMs: 90_000.5 },
      { priority: 9 },
      { maxAttempts: 3, queue: "null" },
      { runAt: new Date("1970-01-01T00:00:00Z") },
    ];
    // Whichever comes first: the others are told by what they differ in from it.
    for (const first of all.keys()) {
      await fixture.database.pool.query("truncate queue_jobs");
      const turned = [...all.slice(first), ...all.slice(0, first)];
      const items = turned.flatMap((options, index) => {
        const idempotencyKey = key === null ? null : `${key}${index}`;
        return [
          { name: "keyed", payload: { id: "a" }, options: { ...options, idempotencyKey } } as const,
          {
            name: "anything",
            payload: null,
            options: { ...options, idempotencyKey: null },
          } as const,
        ];
      });
      await fixture.drivers[driver].transaction((tx) => queue.enqueueMany(tx, items));
      const rows = (await fixture.rows()).map((row, index) => ({
        ...row,
        due: items[index]?.options.runAt === undefined ? row["delay_ms"] : row["available_ms"],
      }));
      expect(rows).toEqual(
        items.map(({ name, payload, options }) =>
          expect.objectContaining({
            name,
            payload,
            queue: options.queue ?? (name === "keyed" ? "default" : "misc"),
            priority: options.priority ?? (name === "keyed" ? 5 : 7),
            max_attempts: options.maxAttempts ?? (name === "keyed" ? 10 : 2),
            idempotency_key: options.idempotencyKey,
            due: options.runAt?.getTime() ?? options.delayMs ?? 0,
          }),
        ),
      );
    }
  });

  test("no jobs are no statement", async () => {
    await fixture.drivers[driver].transaction(async (transaction) => {
      const { tx, sent } = countingStatements(transaction);
      expect(await queue.enqueueMany(tx, [])).toEqual([]);
      expect(sent()).toBe(0);
    });
  });

  test("a rolled-back transaction and a rolled-back savepoint leave no job", async () => {
    const db = fixture.drivers[driver];
    const failure = new Error("no");
    await expect(
      db.transaction(async (tx) => {
        await queue.enqueue(tx, "report", { id: "gone" });
        throw failure;
      }),
    ).rejects.toThrow(failure);
    await db.transaction(async (tx) => {
      await queue.enqueue(tx, "report", { id: "kept" });
      const savepoint = tx.transaction(async (inner) => {
        await queue.enqueue(inner, "report", { id: "gone too" });
        throw failure;
      });
      await expect(savepoint).rejects.toThrow(failure);
    });
    expect((await fixture.rows()).map((row) => row["payload"])).toEqual([{ id: "kept", pages: 3 }]);
  });

  test("an enqueue that nobody awaits is still inside its transaction", async () => {
    let floating: Promise<unknown> | undefined;
    await fixture.drivers[driver].transaction(async (tx) => {
      await queue.enqueue(tx, "report", { id: "awaited" });
      floating = queue.enqueue(tx, "report", { id: "floating" });
    });
    await floating;
    const { rows } = await fixture.database.pool.query(
      "select count(*)::int as jobs, count(distinct xmin::text)::int as transactions from queue_jobs",
    );
    expect(rows).toEqual([{ jobs: 2, transactions: 1 }]);
  });
});
