import { sql } from "drizzle-orm";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { JobMap } from "../../src/registry/job-definition.js";
import { parseStored } from "../../src/registry/parse-payload.js";
import { openRoom, type Room } from "../worker/room.js";
import { inTest, onWorker, type Told, toldOf } from "./both-ways.js";
import { CASES, type Context, type Handler, insert, queue } from "./parity-cases.js";

let room: Room;
beforeAll(async () => {
  room = await openRoom();
  await room.rows("create table effects (n integer primary key deferrable initially deferred)");
  await room.rows("create table unique_effects (n integer primary key)");
});
afterEach(async () => {
  await room.rows("truncate effects, unique_effects");
  await room.clear();
});
afterAll(() => room.close());

interface Way {
  readonly told: Told;
  readonly seen: unknown;
  readonly result: unknown;
  readonly effects: number;
}

/** Keeps what the handler is given: as text, since the order of keys counts too. */
function watched(handler: Handler) {
  const seen: string[] = [];
  const watching = (context: Context & { payload: unknown; job: object }): unknown => {
    seen.push(JSON.stringify([context.payload, { ...context.job, id: 0, createdAt: 0 }]));
    return handler(context);
  };
  return { seen, watching };
}

const effects = async (): Promise<number> => {
  const [row] = await room.rows<{ count: number }>(
    "select ((select count(*) from effects) + (select count(*) from unique_effects))::int as count",
  );
  await room.rows("truncate effects, unique_effects");
  return row?.count ?? -1;
};

async function byWorker(name: string, given: unknown, handler: Handler): Promise<Way> {
  const { seen, watching } = watched(handler);
  const told = await onWorker(room, { queue, name, payload: given, handler: watching });
  const [row] = await room.rows<{ result: string | null }>(
    "select result::text as result from queue_jobs",
  );
  return { told, seen, result: readBack(name, row?.result ?? null), effects: await effects() };
}

/** The result in the row, parsed by its schema. */
function readBack(name: string, stored: string | null): string {
  const { result, ...definition } = queue.jobs[name] as JobMap[string];
  if (result === undefined || stored === null) return JSON.stringify(null);
  const read = parseStored({ ...definition, result, payload: result }, JSON.parse(stored));
  return JSON.stringify(read.ok ? (read.output ?? null) : read.issues);
}

async function byTest(name: string, given: unknown, handler: Handler): Promise<Way> {
  const { seen, watching } = watched(handler);
  const end = await inTest(room, { queue, name, payload: given, handler: watching });
  const result = JSON.stringify(end.kind === "done" ? (end.result ?? null) : null);
  return { told: toldOf(end), seen, result, effects: await effects() };
}

describe.each(CASES)("in a test as on a worker: %s", (_, cases) => {
  const named = cases.map(([title, name, handler, given]) => ({ title, name, handler, given }));
  test.each(named)("$title", async ({ name, handler, given }) => {
    const sent = given ?? (name === "timed" ? undefined : {});
    expect(await byTest(name, sent, handler)).toEqual(await byWorker(name, sent, handler));
  });
});

describe("what a test does not see, as the docs say:", () => {
  test("the end of the lease, by which a worker's commit must be over", async () => {
    const slow: Handler = ({ commit }) =>
      commit((tx) => tx.execute(sql`insert into effects select 1 from pg_sleep(0.8)`));
    expect((await byTest("once", {}, slow)).told).toEqual({ kind: "done" });
    expect((await byWorker("once", {}, slow)).told).toMatchObject({
      kind: expect.stringMatching(/lost|fail/),
    });
  });

  test("the job's own row", async () => {
    const touching: Handler = ({ commit }) =>
      commit(async (tx) => {
        await tx.execute(sql`insert into effects select id from queue_jobs`);
      });
    expect((await byTest("plain", {}, touching)).effects).toBe(0);
    expect((await byWorker("plain", {}, touching)).effects).toBe(1);
  });

  test("that its key has been recorded meanwhile", async () => {
    const effect: Handler = async ({ commit }) => {
      await room.rows(
        "insert into queue_processed_keys (job_id, name, idempotency_key) values (0, 'keyed', 'key')",
      );
      await commit((tx) => tx.execute(insert(1)));
    };
    expect((await byTest("keyed", {}, effect)).effects).toBe(1);
    await room.clear();
    expect((await byWorker("keyed", {}, effect)).effects).toBe(0);
  });

  test("in a transaction of the test, what is checked at its COMMIT", async () => {
    const twice: Handler = ({ commit }) =>
      commit(async (tx) => {
        await tx.execute(insert(1));
        await tx.execute(insert(1));
      });
    const of = { queue, name: "once", payload: {}, handler: twice };
    const rolledBack = room.db.transaction(async (tx) => {
      expect(toldOf(await inTest(room, of, { db: tx }))).toEqual({ kind: "done" });
      tx.rollback();
    });
    await expect(rolledBack).rejects.toThrow("Rollback");
    expect((await byWorker("once", {}, twice)).told).toEqual({
      kind: "fail",
      error: expect.stringContaining("23505"),
    });
  });
});
