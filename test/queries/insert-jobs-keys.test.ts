import { randomBytes } from "node:crypto";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createQueue, defineJob, defineJobs } from "../../src/index.js";
import { countingStatements, type Fixture, openFixture, queue } from "./insert-jobs-fixture.js";

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());
beforeEach(() =>
  fixture.database.pool.query("truncate queue_jobs, queue_processed_keys, queue_workers"),
);

const keyed = (id: string, note?: string) =>
  ({ name: "keyed", payload: note === undefined ? { id } : { id, note } }) as const;

describe.each(["node-postgres", "postgres.js"] as const)("with %s", (driver) => {
  test("a second enqueue of a key answers the first job, in one statement", async () => {
    await fixture.drivers[driver].transaction(async (transaction) => {
      const { tx, sent } = countingStatements(transaction);
      const first = await queue.enqueue(tx, "keyed", { id: "k" });
      const second = await queue.enqueue(tx, "keyed", { id: "k" });
      const [third] = await queue.enqueueMany(tx, [keyed("k")]);
      expect(first.created).toBe(true);
      expect(second).toEqual({ ...first, created: false });
      expect(third).toEqual(second);
      expect(sent()).toBe(3);
    });
    expect(await fixture.rows()).toHaveLength(1);
  });

  test("the same key under another name is another job", async () => {
    await fixture.drivers[driver].transaction(async (tx) => {
      const a = await queue.enqueue(tx, "keyed", { id: "k" });
      const b = await queue.enqueue(tx, "anything", 1, { idempotencyKey: "k" });
      expect([a.created, b.created]).toEqual([true, true]);
    });
  });

  test("a batch maps repeats to the first, among fresh and stored keys", async () => {
    await fixture.drivers[driver].transaction(async (tx) => {
      const stored = await queue.enqueue(tx, "keyed", { id: "stored" });
      const answers = await queue.enqueueMany(tx, [
        keyed("z"),
        keyed("stored"),
        { name: "report", payload: { id: "plain" } },
        keyed("a"),
        ...Array.from({ length: 500 }, () => keyed("z")),
        keyed("a"),
      ]);
      expect(answers).toHaveLength(505);
      expect([...answers.keys()].filter((index) => answers[index]?.created)).toEqual([0, 2, 3]);
      expect(answers[1]).toEqual({
        id: stored.id,
        name: "keyed",
        created: false,
        status: "queued",
      });
      expect(new Set(answers.slice(4, 504).map(({ id }) => id))).toEqual(new Set([answers[0]?.id]));
      expect(answers[504]).toEqual({ ...answers[3], created: false });
      // Numbers follow the order of the batch, though rows go in sorted by key.
      const fresh = [0, 2, 3].map((index) => Number(answers[index]?.id));
      expect(fresh).toEqual(fresh.toSorted((a, b) => a - b));
    });
    expect(await fixture.rows()).toHaveLength(4);
  });

  test.each(["running", "done", "failed", "cancelled"] as const)(
    "a key whose job is %s stays taken",
    async (status) => {
      const db = fixture.drivers[driver];
      const first = await queue.enqueueNow(db, "keyed", { id: "k" });
      const isFinal = status !== "running";
      await db.execute(sql`update queue_jobs set status = ${status}, attempts = 1,
      lease_until = case when ${!isFinal}::boolean then now() + interval '1 min' end,
      outcome = case when ${isFinal}::boolean then ${status}::text end,
      finished_at = case when ${isFinal}::boolean then now() end`);
      const again = await queue.enqueueNow(db, "keyed", { id: "k" });
      const [batch] = await db.transaction((tx) => queue.enqueueMany(tx, [keyed("k")]));
      expect(again).toEqual({ id: first.id, name: "keyed", created: false, status });
      expect(batch).toEqual(again);
    },
  );

  test("a key that was processed answers without a new job, until it expires", async () => {
    const db = fixture.drivers[driver];
    await db.execute(sql`insert into queue_processed_keys (name, idempotency_key, job_id, input_hash, expires_at)
      values ('keyed', 'k', 4711, sha256(convert_to('{"id":"k"}'::jsonb::text, 'UTF8')), now() + interval '1 hour')`);
    const one = await queue.enqueueNow(db, "keyed", { id: "k" });
    const [many] = await db.transaction((tx) => queue.enqueueMany(tx, [keyed("k")]));
    expect(one).toEqual({ id: 4711, name: "keyed", created: false, status: "done" });
    expect(many).toEqual(one);
    await expect(queue.enqueueNow(db, "keyed", { id: "k", note: "other" })).rejects.toMatchObject({
      code: "IDEMPOTENCY_CONFLICT",
    });
    expect(await fixture.rows()).toEqual([]);

    await db.execute(sql`update queue_processed_keys set expires_at = now() - interval '1 second'`);
    expect(await queue.enqueueNow(db, "keyed", { id: "k" })).toMatchObject({ created: true });
    await fixture.database.pool.query("truncate queue_jobs");
    expect(await db.transaction((tx) => queue.enqueueMany(tx, [keyed("k")]))).toMatchObject([
      { created: true },
    ]);
  });

  test("a processed key without a hash or an end is taken for any input", async () => {
    const db = fixture.drivers[driver];
    await db.execute(
      sql`insert into queue_processed_keys (name, idempotency_key, job_id) values ('keyed', 'k', 5)`,
    );
    expect(await queue.enqueueNow(db, "keyed", { id: "k", note: "x" })).toMatchObject({
      id: 5,
      created: false,
    });
    expect(await db.transaction((tx) => queue.enqueueMany(tx, [keyed("k", "y")]))).toMatchObject([
      { id: 5 },
    ]);
  });

  test("a key with another input is refused, and the transaction goes on", async () => {
    const { id } = await queue.enqueueNow(fixture.drivers[driver], "keyed", {
      id: "k",
      note: "first",
    });
    await fixture.drivers[driver].transaction(async (tx) => {
      await expect(queue.enqueue(tx, "keyed", { id: "k", note: "hush" })).rejects.toMatchObject({
        code: "IDEMPOTENCY_CONFLICT",
        message: expect.stringContaining(`that of job ${id}`),
      });
      await queue.enqueue(tx, "report", { id: "after" });
    });
    expect(await fixture.rows()).toHaveLength(2);
  });

  test("a batch with one conflict inserts nothing, and tells which job it was", async () => {
    await queue.enqueueNow(fixture.drivers[driver], "keyed", { id: "k", note: "earlier" });
    await fixture.drivers[driver].transaction(async (tx) => {
      const conflict = queue.enqueueMany(tx, [
        { name: "report", payload: { id: "x" } },
        keyed("new"),
        keyed("k", "hush"),
        keyed("new"),
      ]);
      await expect(conflict).rejects.toMatchObject({
        code: "IDEMPOTENCY_CONFLICT",
        issues: [{ path: [2] }],
        message: expect.not.stringMatching(/hush|earlier/),
      });
      const inside = queue.enqueueMany(tx, [keyed("a"), keyed("b", "one"), keyed("b", "two")]);
      await expect(inside).rejects.toMatchObject({
        code: "IDEMPOTENCY_CONFLICT",
        issues: [{ path: [2] }],
      });
    });
    expect((await fixture.rows()).map((row) => row["idempotency_key"])).toEqual(["k"]);
  });

  test("the input decides, not its key order, and not what defaults added", async () => {
    const db = fixture.drivers[driver];
    const input = (payload: unknown) =>
      queue.enqueueNow(db, "anything", payload, { idempotencyKey: "k" });
    expect(await input({ a: 1, b: { c: 2, d: 3 } })).toMatchObject({ created: true });
    expect(await input({ b: { d: 3, c: 2 }, a: 1 })).toMatchObject({ created: false });
    await expect(input({ a: 1, b: { c: 2, d: 4 } })).rejects.toMatchObject({
      code: "IDEMPOTENCY_CONFLICT",
    });

    const report = (payload: { id: string; pages?: number }) =>
      queue.enqueueNow(db, "report", payload, { idempotencyKey: "r" });
    expect(await report({ id: "r" })).toMatchObject({ created: true });
    expect(await report({ id: "r" })).toMatchObject({ created: false });
    await expect(report({ id: "r", pages: 3 })).rejects.toMatchObject({
      code: "IDEMPOTENCY_CONFLICT",
    });
    const batch = db.transaction((tx) =>
      queue.enqueueMany(tx, [
        { name: "report", payload: { id: "r" }, options: { idempotencyKey: "r" } },
      ]),
    );
    expect(await batch).toMatchObject([{ created: false }]);
  });
});

test("duplicates draw no numbers", async () => {
  await queue.enqueueNow(fixture.db, "keyed", { id: "k" });
  const lastValue = async () =>
    (await fixture.database.pool.query(`select last_value from ${await sequence()}`))
      .rows[0] as unknown;
  const sequence = async () =>
    (await fixture.database.pool.query("select pg_get_serial_sequence('queue_jobs', 'id') as s"))
      .rows[0].s as string;
  const before = await lastValue();
  for (let round = 0; round < 50; round += 1) {
    await fixture.db.transaction(async (tx) => {
      await queue.enqueue(tx, "keyed", { id: "k" });
      await queue.enqueueMany(tx, [keyed("k"), keyed("k")]);
    });
  }
  expect(await lastValue()).toEqual(before);
});

test("a batch of keys that are all taken costs no more than one that is new", async () => {
  const items = Array.from({ length: 10_000 }, (_, index) => keyed(`k${index}`));
  const enqueue = async () => {
    const startedAt = performance.now();
    const jobs = await fixture.db.transaction((tx) => queue.enqueueMany(tx, items));
    return { jobs, ms: performance.now() - startedAt };
  };
  const first = await enqueue();
  const repeats = [await enqueue(), await enqueue(), await enqueue()];
  // The machine may be busy at one of them. Every row against every other would be 100,000,000 comparisons.
  expect(Math.min(...repeats.map(({ ms }) => ms))).toBeLessThan(first.ms);
  for (const { jobs } of repeats) {
    expect(jobs.map(({ id }) => id)).toEqual(first.jobs.map(({ id }) => id));
    expect(jobs.some(({ created }) => created)).toBe(false);
  }
});

test("a key and a name of the largest size are stored whatever they hold, and their Unicode forms are apart", async () => {
  // Nothing that could be compressed: an entry of an index has to fit as it is.
  const random = (bytes: number) => randomBytes(bytes).toString("base64url").slice(0, bytes);
  const name = random(128);
  const large = createQueue({ jobs: defineJobs({ [name]: defineJob({ payload: z.unknown() }) }) });
  const composed = "\u00fc";
  const keys = [random(512), random(512), composed, composed.normalize("NFD"), "K", "k", "k "];
  const answers: { id: number; created: boolean }[] = [];
  for (const idempotencyKey of [...keys, ...keys])
    answers.push(await large.enqueueNow(fixture.db, name, 1, { idempotencyKey }));
  expect(answers.map(({ created }) => created)).toEqual([
    ...keys.map(() => true),
    ...keys.map(() => false),
  ]);
  expect(new Set(answers.map(({ id }) => id)).size).toBe(keys.length);
  await fixture.database.pool.query(
    `insert into queue_processed_keys (name, idempotency_key, job_id, input_hash)
     select name, idempotency_key, id, input_hash from queue_jobs`,
  );
});
