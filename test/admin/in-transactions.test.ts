import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { openRoom, type Room } from "../worker/room.js";
import { admin, insertText, queue } from "./fixture.js";

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const later = async () => (await queue.enqueueNow(room.db, "watched", {}, { delayMs: 60_000 })).id;

describe("in a transaction a locked job", () => {
  test("is tried again, and changed with the rest", async () => {
    const id = await later();
    const client = await room.pool.connect();
    await client.query("begin");
    await client.query("select from queue_jobs where id = $1 for no key update", [id]);
    const answer = room.db.transaction((tx) => admin.cancel(tx, id));
    await client.query("select pg_sleep(0.02)");
    await client.query("rollback");
    client.release();
    expect(await answer).toBe("cancelled");
    expect(await room.job(id)).toMatchObject({ status: "cancelled" });
  });

  test("is not changed any more once that transaction is over", async () => {
    const id = await later();
    const single = new pg.Pool({ connectionString: room.url, max: 1 });
    const db = drizzle(single);
    const client = await room.pool.connect();
    await client.query("begin");
    await client.query("select from queue_jobs where id = $1 for no key update", [id]);
    let cancelling: Promise<unknown> = Promise.resolve();
    // Not awaited: its first statement finds the row locked, and the next one is to come when all is over.
    const failing = db.transaction(async (tx) => {
      cancelling = admin.cancel(tx, id);
      throw new Error("no luck");
    });
    await expect(failing).rejects.toThrow("no luck");
    await client.query("rollback");
    client.release();
    expect(await cancelling).toBe("busy");
    expect(await room.job(id)).toMatchObject({ status: "queued" });
    await single.end();
  });
});

describe("where the database's default is REPEATABLE READ", () => {
  test("a call outside of a transaction answers, although jobs change meanwhile", async () => {
    const rows = await room.rows<{ id: number }>(insertText("queued"), [200]);
    const ids = rows.map(({ id }) => id);
    const pool = new pg.Pool({
      connectionString: room.url,
      options: "-c default_transaction_isolation=repeatable\\ read",
    });
    const db = drizzle(pool);
    const rounds = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const cancelled = await admin.cancelMany(db, ids);
        const requeued = await admin.requeueMany(db, ids);
        return [...cancelled, ...requeued];
      }),
    );
    expect(rounds.flat()).toHaveLength(1_600);
    await pool.end();
  });
});

describe("running a job now", () => {
  test.each([
    ["waits for its time", "queued", "due"],
    ["runs", "running", "running"],
    ["is done", "done", "ended"],
    ["failed", "failed", "ended"],
  ] as const)("of one that %s answers by what it is", async (_, status, answer) => {
    const [row] = await room.rows<{ id: number }>(insertText(status), [1]);
    const id = row?.id ?? 0;
    await room.rows("update queue_jobs set available_at = now() + interval '1 hour', attempts = 3");
    expect(await admin.runNow(room.db, id)).toBe(answer);
    const job = await admin.getJob(room.db, id);
    expect(job).toMatchObject({ status, attempts: 3 });
    const isDue = Number(job?.availableAt) <= Date.now() + 10_000;
    expect(isDue).toBe(answer === "due");
  });

  test("leaves the place of one that is due, and knows of one that is not there", async () => {
    const { id } = await queue.enqueueNow(room.db, "watched", {}, { runAt: new Date(0) });
    expect(await admin.runNowMany(room.db, [id, 4_711])).toEqual([
      { id, answer: "due" },
      { id: 4_711, answer: "missing" },
    ]);
    expect((await admin.getJob(room.db, id))?.availableAt).toEqual(new Date(0));
  });
});
