import { sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  countingStatements,
  type Fixture,
  openFixture,
  openTransaction,
  queue,
  type Tx,
  untilWaiting,
} from "./insert-jobs-fixture.js";

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

/** Both ways in, as one that answers the last job's result. */
const ways = {
  enqueue: (tx: Tx, id: string, note?: string) =>
    queue.enqueue(tx, "keyed", keyed(id, note).payload),
  enqueueMany: async (tx: Tx, id: string, note?: string) => {
    const answers = await queue.enqueueMany(tx, [
      { name: "report", payload: { id: "other" } },
      keyed(id, note),
    ]);
    return answers[1];
  },
};

describe.each(["enqueue", "enqueueMany"] as const)(
  "%s of a key that an open transaction inserts",
  (way) => {
    test("answers that job once the other commits, by one more statement", async () => {
      const other = await openTransaction(fixture.db);
      const first = await queue.enqueue(other.tx, "keyed", { id: "k" });
      const second = fixture.db.transaction(async (transaction) => {
        const { tx, sent } = countingStatements(transaction);
        const answer = await ways[way](tx, "k");
        return { answer, sent: sent() };
      });
      await untilWaiting(fixture.database);
      await other.commit();
      expect(await second).toEqual({ answer: { ...first, created: false }, sent: 2 });
      expect(await fixture.rows("name = 'keyed'")).toHaveLength(1);
    });

    test("inserts it once the other rolls back, by no further statement", async () => {
      const other = await openTransaction(fixture.db);
      await queue.enqueue(other.tx, "keyed", { id: "k" });
      const second = fixture.db.transaction(async (transaction) => {
        const { tx, sent } = countingStatements(transaction);
        return { answer: await ways[way](tx, "k"), sent: sent() };
      });
      await untilWaiting(fixture.database);
      await other.rollback();
      expect(await second).toMatchObject({ answer: { created: true }, sent: 1 });
    });

    test("is refused if the other commits another input, and then inserts nothing", async () => {
      const other = await openTransaction(fixture.db);
      await queue.enqueue(other.tx, "keyed", { id: "k", note: "theirs" });
      const second = fixture.db.transaction(async (tx) => {
        await expect(ways[way](tx, "k", "ours")).rejects.toMatchObject({
          code: "IDEMPOTENCY_CONFLICT",
        });
        await queue.enqueue(tx, "report", { id: "still usable" });
      });
      await untilWaiting(fixture.database);
      await other.commit();
      await second;
      expect((await fixture.rows()).map((row) => row["payload"])).toEqual([
        { id: "k", note: "theirs" },
        { id: "still usable", pages: 3 },
      ]);
    });

    test("inserts it if the other's job is gone again before the second statement", async () => {
      const other = await openTransaction(fixture.db);
      const first = await queue.enqueue(other.tx, "keyed", { id: "k" });
      const second = fixture.db.transaction(async (transaction) => {
        const { tx, sent } = countingStatements(transaction, async (statement) => {
          if (statement === 2)
            await fixture.db.execute(sql`delete from queue_jobs where id = ${first.id}::bigint`);
        });
        return { answer: await ways[way](tx, "k"), sent: sent() };
      });
      await untilWaiting(fixture.database);
      await other.commit();
      const { answer, sent } = await second;
      expect(answer).toMatchObject({ created: true, status: "queued" });
      expect(answer?.id).not.toBe(first.id);
      expect(sent).toBe(2);
      expect(await fixture.rows("name = 'keyed'")).toHaveLength(1);
    });

    test("finds the processed key where the job was done and deleted meanwhile", async () => {
      const other = await openTransaction(fixture.db);
      const first = await queue.enqueue(other.tx, "keyed", { id: "k" });
      const second = fixture.db.transaction(async (transaction) => {
        const { tx } = countingStatements(transaction, async (statement) => {
          if (statement !== 2) return;
          await fixture.db.execute(sql`with gone as (delete from queue_jobs where id = ${first.id}::bigint returning *)
          insert into queue_processed_keys (name, idempotency_key, job_id, input_hash)
          select name, idempotency_key, id, input_hash from gone`);
        });
        return ways[way](tx, "k");
      });
      await untilWaiting(fixture.database);
      await other.commit();
      expect(await second).toEqual({ id: first.id, name: "keyed", created: false, status: "done" });
    });
  },
);

test("a key that is processed in an open transaction does not hold the enqueue up: the worker's check saves the effect", async () => {
  const other = await openTransaction(fixture.db);
  await other.tx.execute(
    sql`insert into queue_processed_keys (name, idempotency_key, job_id) values ('keyed', 'k', 9)`,
  );
  expect(await queue.enqueueNow(fixture.db, "keyed", { id: "k" })).toMatchObject({ created: true });
  await other.commit();
});

test("neither waits for, nor locks, a job that an open transaction holds", async () => {
  const { id } = await queue.enqueueNow(fixture.db, "keyed", { id: "k" });
  const holder = await openTransaction(fixture.db);
  await holder.tx.execute(sql`select from queue_jobs where id = ${id}::bigint for update`);
  const asker = await openTransaction(fixture.db);
  await asker.tx.execute(sql`set local lock_timeout = '2s'`);
  expect(await queue.enqueue(asker.tx, "keyed", { id: "k" })).toMatchObject({ id, created: false });
  expect(await queue.enqueueMany(asker.tx, [keyed("k")])).toMatchObject([{ id, created: false }]);
  await holder.rollback();
  // The asker's transaction is still open: a worker's renewal must get the row all the same.
  await fixture.db.transaction(async (tx) => {
    await tx.execute(sql`select from queue_jobs where id = ${id}::bigint for update nowait`);
  });
  await asker.commit();
});

test("a job that is being deleted answers from the snapshot, without a wait", async () => {
  const { id } = await queue.enqueueNow(fixture.db, "keyed", { id: "k" });
  const deleter = await openTransaction(fixture.db);
  await deleter.tx.execute(sql`delete from queue_jobs where id = ${id}::bigint`);
  await fixture.db.transaction(async (tx) => {
    await tx.execute(sql`set local lock_timeout = '2s'`);
    expect(await queue.enqueue(tx, "keyed", { id: "k" })).toMatchObject({ id, created: false });
    expect(await queue.enqueueMany(tx, [keyed("k")])).toMatchObject([{ id, created: false }]);
  });
  await deleter.commit();
});

test("eight producers of the same keys in any order do not deadlock, and make each job once", async () => {
  const keys = Array.from({ length: 300 }, (_, index) => `k${index}`);
  const shuffled = () =>
    keys.map((key) => ({ key, at: Math.random() })).sort((a, b) => a.at - b.at);
  const producers = Array.from({ length: 8 }, async (_, producer) => {
    const created: number[] = [];
    for (let round = 0; round < 4; round += 1) {
      const items = shuffled().slice(0, 150);
      const db = fixture.drivers[producer % 2 === 0 ? "node-postgres" : "postgres.js"];
      const answers = await db.transaction((tx) =>
        queue.enqueueMany(
          tx,
          items.map(({ key }) => keyed(key)),
        ),
      );
      expect(answers).toHaveLength(items.length);
      created.push(...answers.filter((answer) => answer.created).map(({ id }) => id));
    }
    return created;
  });
  const created = (await Promise.all(producers)).flat();
  const rows = await fixture.rows();
  expect(new Set(created).size).toBe(created.length);
  expect(new Set(rows.map((row) => row["id"]))).toEqual(new Set(created));
  expect(new Set(rows.map((row) => row["idempotency_key"])).size).toBe(rows.length);
});

test("against somebody who deletes the same key all the time, every answer is a job", async () => {
  let deleting = true;
  const deleter = (async () => {
    while (deleting)
      await fixture.database.pool.query("delete from queue_jobs where idempotency_key = 'k'");
  })();
  const producers = Array.from({ length: 4 }, async () => {
    for (let round = 0; round < 40; round += 1) {
      const answers = await fixture.db.transaction(async (tx) => [
        await queue.enqueue(tx, "keyed", { id: "k" }),
        ...(await queue.enqueueMany(tx, [keyed("k")])),
      ]);
      for (const { id, status } of answers) expect([id > 0, status]).toEqual([true, "queued"]);
    }
  });
  await Promise.all(producers);
  deleting = false;
  await deleter;
});
