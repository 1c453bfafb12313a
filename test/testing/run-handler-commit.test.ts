import { eq, sql } from "drizzle-orm";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { queueJobs } from "drizzle-queue/schema";
import { runHandler } from "drizzle-queue/testing";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { type AppDatabase, DRIVERS } from "../worker/drivers.js";

const queue = createQueue({
  jobs: defineJobs({
    effect: defineJob({
      payload: z.object({ n: z.number() }),
      result: z.object({ n: z.number() }),
      backoff: fixed({ delayMs: 10, jitter: 0 }),
    }),
    next: defineJob({ payload: z.object({}) }),
  }),
});

describe.each(DRIVERS)("on $driver, commit", ({ open }) => {
  let database: TestDatabase;
  let app: AppDatabase;

  beforeAll(async () => {
    database = await createDatabase();
    app = open(database.url);
    await app.db.execute(sql`create table effects (n integer not null)`);
  });
  afterEach(() => app.db.execute(sql`truncate effects, queue_jobs`));
  afterAll(async () => {
    await app.close();
    await database.drop();
  });

  const insert = (n: number) => sql`insert into effects (n) values (${n})`;
  const effects = async () => {
    const { rows } = await database.pool.query<{ n: number }>("select n from effects order by n");
    return rows.map(({ n }) => n);
  };

  test("writes its effects and the jobs that it enqueues, and no job of its own", async () => {
    const end = await runHandler({
      queue,
      db: app.db,
      name: "effect",
      payload: { n: 1 },
      handlers: {
        effect: ({ payload, commit }) =>
          commit(async (tx) => {
            await tx.execute(insert(payload.n));
            await queue.enqueue(tx, "next", {});
            return payload;
          }),
      },
    });
    expect(end).toEqual({ kind: "done", result: { n: 1 }, isCommitted: true });
    expect(await effects()).toEqual([1]);
    const left = await app.db.select({ name: queueJobs.name }).from(queueJobs);
    expect(left).toEqual([{ name: "next" }]);
  });

  test("writes nothing when its callback throws, and may then be tried again", async () => {
    const end = await runHandler({
      queue,
      db: app.db,
      name: "effect",
      payload: { n: 1 },
      handlers: {
        effect: async ({ payload, commit }) => {
          const broken = commit(async (tx) => {
            await tx.execute(insert(1));
            throw new Error("not that one");
          });
          await broken.catch(() => undefined);
          return commit(async (tx) => {
            await tx.execute(insert(2));
            return payload;
          });
        },
      },
    });
    expect(end).toMatchObject({ kind: "done", isCommitted: true });
    expect(await effects()).toEqual([2]);
  });

  test("succeeds once: a second one is told, and writes nothing", async () => {
    const end = await runHandler({
      queue,
      db: app.db,
      name: "effect",
      payload: { n: 1 },
      handlers: {
        effect: async ({ payload, commit }) => {
          const once = () =>
            commit(async (tx) => {
              await tx.execute(insert(1));
              return payload;
            });
          await once();
          return once();
        },
      },
    });
    expect(end).toMatchObject({
      kind: "done",
      isCommitted: true,
      errorAfterCommit: { code: "COMMITTED_TWICE" },
    });
    expect(await effects()).toEqual([1]);
  });

  test("writes nothing when its result does not fit, and the attempt errors", async () => {
    const end = await runHandler({
      queue,
      db: app.db,
      name: "effect",
      payload: { n: 1 },
      handlers: {
        effect: ({ commit }) =>
          commit(async (tx) => {
            await tx.execute(insert(1));
            return { n: "one" } as never;
          }),
      },
    });
    expect(end).toMatchObject({ kind: "retry", delayMs: 10, error: { code: "RESULT_INVALID" } });
    expect(await effects()).toEqual([]);
  });

  test("is refused once the lease is lost", async () => {
    const end = await runHandler({
      queue,
      db: app.db,
      name: "effect",
      payload: { n: 1 },
      abort: "LEASE_LOST",
      handlers: {
        effect: async ({ payload, commit }) => {
          await Promise.resolve();
          return commit(async (tx) => {
            await tx.execute(insert(1));
            return payload;
          });
        },
      },
    });
    expect(end).toEqual({ kind: "lost" });
    expect(await effects()).toEqual([]);
  });

  test("in a transaction of the test is a savepoint, and leaves its settings alone", async () => {
    const rolledBack = app.db.transaction(async (tx) => {
      const settings = sql`select setting from pg_settings where name like '%timeout' order by name`;
      const before = await tx.execute(settings);
      await tx.execute(insert(1));
      const run = (isBroken: boolean) =>
        runHandler({
          queue,
          db: tx,
          name: "effect",
          payload: { n: 2 },
          handlers: {
            effect: ({ payload, commit }) =>
              commit(async (inner) => {
                await inner.execute(insert(payload.n));
                await queue.enqueue(inner, "next", {});
                if (isBroken) throw new Error("broken");
                return payload;
              }),
          },
        });
      expect(await run(true)).toMatchObject({ kind: "retry" });
      expect(await run(false)).toMatchObject({ kind: "done", isCommitted: true });
      expect(await tx.$count(queueJobs, eq(queueJobs.name, "next"))).toBe(1);
      expect(JSON.stringify(await tx.execute(settings))).toBe(JSON.stringify(before));
      tx.rollback();
    });
    await expect(rolledBack).rejects.toThrow("Rollback");
    expect(await effects()).toEqual([]);
  });
});
