import { PGlite } from "@electric-sql/pglite";
import { drizzle } from "drizzle-orm/pglite";
import { migrate } from "drizzle-orm/pglite/migrator";
import { createQueue, defineJob, defineJobs, fixed, type PgDatabase } from "drizzle-queue";
import { drainJobs } from "drizzle-queue/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { createDatabase } from "../support/database.js";
import { DRIVERS } from "../worker/drivers.js";

const payload = z.object({ n: z.number() });
const queue = createQueue({
  jobs: defineJobs({
    first: defineJob({ payload, idempotencyKey: ({ n }) => `${n}`, queue: "firsts" }),
    second: defineJob({
      payload,
      result: payload,
      maxAttempts: 2,
      backoff: fixed({ delayMs: 60_000 }),
    }),
  }),
});

/** Two kinds of jobs, one of which errors first, in two queues: drained without time and with it. */
async function drainTwice(db: PgDatabase) {
  const drain = (runsScheduled: boolean) =>
    drainJobs({
      queue,
      db,
      runsScheduled,
      handlers: {
        first: ({ payload: { n }, commit }) =>
          commit((tx) => queue.enqueue(tx, "second", { n }, { priority: 0 })),
        second: ({ payload, job }) => {
          if (payload.n === 1 && !job.isLastAttempt) throw new Error("not yet");
          return payload;
        },
      },
    });
  for (const n of [0, 1, 2]) await queue.enqueueNow(db, "first", { n });
  await queue.enqueueNow(db, "second", { n: 9 }, { delayMs: 60_000 });

  const atOnce = await drain(false);
  const scheduled = await drain(true);
  const nothing = await drain(true);
  return {
    atOnce: atOnce.done.map(({ name }) => name).toSorted(),
    retrying: atOnce.retrying.map(({ name, attempt }) => `${name} ${attempt}`),
    scheduled: scheduled.done.map(({ name, attempt }) => `${name} ${attempt}`).toSorted(),
    errors: scheduled.errors,
    nothing: nothing.done,
  };
}

const EXPECTED = {
  atOnce: ["first", "first", "first", "second", "second"],
  retrying: ["second 1"],
  scheduled: ["second 1", "second 2"],
  errors: [],
  nothing: [],
};

describe.each(DRIVERS)("on $driver", ({ open }) => {
  test("jobs are drained, and nobody stays connected", async () => {
    const database = await createDatabase();
    const app = open(database.url, { max: 1 });
    expect(await drainTwice(app.db)).toEqual(EXPECTED);
    await app.close();
    // Throws when a session is left.
    await database.drop();
  });
});

test("on PGlite jobs are drained", { timeout: 60_000 }, async () => {
  const client = new PGlite();
  const db = drizzle(client);
  await migrate(db, { migrationsFolder: "drizzle" });
  expect(await drainTwice(db)).toEqual(EXPECTED);
  await client.close();
});
