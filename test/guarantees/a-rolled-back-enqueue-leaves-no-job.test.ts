import { drizzle } from "drizzle-orm/node-postgres";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy } from "../support/events.js";
import { waitUntil } from "../support/wait-until.js";
import { spawnWorkerProcess } from "../support/worker-process.js";
import { queue } from "./processes/jobs.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
  await database.pool.query("create table orders (n int)");
});
afterEach(() => database.pool.query("truncate orders, queue_jobs, queue_processed_keys"));
afterAll(() => database.drop());

const db = () => drizzle(database.pool);
const jobs = async () => {
  const { rows } = await database.pool.query("select payload, status from queue_jobs order by id");
  return rows;
};
const script = new URL("./processes/enqueueing-process.ts", import.meta.url);

describe("a transaction that is rolled back leaves no job", () => {
  test("when its callback throws", async () => {
    const transaction = db().transaction(async (tx) => {
      await queue.enqueue(tx, "work", { n: 1 });
      await queue.enqueueMany(tx, [{ name: "work", payload: { n: 2 } }]);
      throw new Error("changed my mind");
    });
    await expect(transaction).rejects.toThrow("changed my mind");
    expect(await jobs()).toEqual([]);
  });

  test("when it rolls itself back, while a worker listens: nothing ever starts", async () => {
    const spy = createEventSpy();
    await using worker = createWorker({
      queue,
      db: db(),
      only: ["work"],
      pollIntervalMs: 20,
      instrumentation: spy.listener,
      handlers: { work: () => {} },
    });
    await worker.start();
    let rolledBack = 0;
    await db()
      .transaction(async (tx) => {
        rolledBack = (await queue.enqueue(tx, "work", { n: 1 })).id;
        tx.rollback();
      })
      .catch(() => undefined);
    // A job that is committed afterwards has been seen: so the former would have been, too.
    const { id } = await queue.enqueueNow(db(), "work", { n: 2 });
    await spy.next("job.done", ({ jobId }) => jobId === id);
    expect(spy.all("job.claimed").map(({ jobId }) => jobId)).not.toContain(rolledBack);
    expect(await jobs()).toEqual([{ payload: { n: 2 }, status: "done" }]);
  });

  test("for the part that a savepoint takes back", async () => {
    await db().transaction(async (tx) => {
      await queue.enqueue(tx, "work", { n: 1 });
      await tx
        .transaction(async (inner) => {
          await queue.enqueue(inner, "work", { n: 2 });
          inner.rollback();
        })
        .catch(() => undefined);
      await queue.enqueue(tx, "work", { n: 3 });
    });
    expect(await jobs()).toEqual([
      { payload: { n: 1 }, status: "queued" },
      { payload: { n: 3 }, status: "queued" },
    ]);
  });

  test("when its process is killed before the commit", async () => {
    const producer = spawnWorkerProcess(script, {
      env: { DATABASE_URL: database.url, DIES: "before commit" },
    });
    await producer.waitFor("enqueued");
    producer.kill("SIGKILL");
    await producer.exit;
    await waitUntil("the server has noticed", async () => {
      const { rows } = await database.pool.query(
        "select from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'",
      );
      return rows.length === 0;
    });
    expect(await jobs()).toEqual([]);
  });
});

describe("a transaction that commits always leaves its job", () => {
  test("beside the domain rows that it wrote, and the job then runs", async () => {
    const spy = createEventSpy();
    await using worker = createWorker({
      queue,
      db: db(),
      only: ["work"],
      pollIntervalMs: 20,
      instrumentation: spy.listener,
      handlers: {
        work: async ({ payload }) => {
          // With a queue outside the transaction, a fast worker would come before the row.
          const { rows } = await database.pool.query("select from orders where n = $1", [
            payload.n,
          ]);
          expect(rows).toHaveLength(1);
        },
      },
    });
    await worker.start();
    for (let n = 0; n < 20; n += 1) {
      await db().transaction(async (tx) => {
        await queue.enqueue(tx, "work", { n });
        await tx.execute(`insert into orders values (${n})`);
      });
    }
    for (let n = 0; n < 20; n += 1) await spy.next("job.done");
    expect(spy.all("attempt.errored")).toEqual([]);
    expect(await jobs()).toEqual(
      Array.from({ length: 20 }, (_, n) => ({ payload: { n }, status: "done" })),
    );
  });

  test("even if its process is killed right after the commit", async () => {
    const producer = spawnWorkerProcess(script, { env: { DATABASE_URL: database.url } });
    await producer.waitFor("committed");
    producer.kill("SIGKILL");
    await producer.exit;
    expect(await jobs()).toEqual([{ payload: { n: 1 }, status: "queued" }]);
  });
});
