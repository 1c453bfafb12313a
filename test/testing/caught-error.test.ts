import { PGlite } from "@electric-sql/pglite";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/pglite";
import { createQueue, defineJob, defineJobs, fixed, type PgDatabase } from "drizzle-queue";
import { runHandler } from "drizzle-queue/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import { createDatabase } from "../support/database.js";
import { DRIVERS } from "../worker/drivers.js";

// After an error that the effect catches, PostgreSQL answers COMMIT with a rollback, which is no error to a driver.

const queue = createQueue({
  jobs: defineJobs({
    effect: defineJob({
      payload: z.object({ catches: z.boolean() }),
      backoff: fixed({ delayMs: 10, jitter: 0 }),
    }),
  }),
});

const insert = (n: number) => sql`insert into effects (n) values (${n})`;

/** One attempt whose effect has its second statement refused. */
const attempt = (db: PgDatabase, catches: boolean) =>
  runHandler({
    queue,
    db,
    name: "effect",
    payload: { catches },
    handlers: {
      effect: ({ commit }) =>
        commit(async (tx) => {
          const run = (n: number) => (tx as unknown as Runs).execute(insert(n));
          await run(1);
          if (catches) await run(1).catch(() => undefined);
        }),
    },
  });

interface Runs {
  execute(query: unknown): Promise<unknown>;
}

const ABORTED = {
  kind: "retry",
  delayMs: 10,
  error: expect.objectContaining({ cause: expect.objectContaining({ code: "25P02" }) }),
};

/** How attempts end in a database, and in a transaction of the test; and how many effects are left each time. */
async function endsOn(db: PgDatabase, count: () => Promise<number>): Promise<unknown[]> {
  await (db as unknown as Runs).execute(sql`create table effects (n integer primary key)`);
  const ends: unknown[] = [await attempt(db, true), await count()];
  await db
    .transaction(async (tx) => {
      const inTransaction = tx as unknown as PgDatabase;
      ends.push(await attempt(inTransaction, true), await attempt(inTransaction, false));
      tx.rollback();
    })
    .catch(() => ends.push("rolled back"));
  ends.push(await count(), await attempt(db, false), await count());
  return ends;
}

const DONE = { kind: "done", result: null, isCommitted: true };
const EXPECTED = [ABORTED, 0, ABORTED, DONE, "rolled back", 0, DONE, 1];

test.each(DRIVERS)(
  "on $driver a commit that PostgreSQL rolls back is no success",
  async ({ open }) => {
    const database = await createDatabase();
    const app = open(database.url);
    const ends = await endsOn(app.db, async () => {
      const { rowCount } = await database.pool.query("select from effects");
      return rowCount ?? -1;
    });
    expect(ends).toEqual(EXPECTED);
    await app.close();
    await database.drop();
  },
);

test("on PGlite neither", { timeout: 60_000 }, async () => {
  const client = new PGlite();
  const count = async () => (await client.query("select n from effects")).rows.length;
  expect(await endsOn(drizzle(client), count)).toEqual(EXPECTED);
  await client.close();
});
