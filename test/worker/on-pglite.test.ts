import { PGlite } from "@electric-sql/pglite";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/pglite";
import { migrate } from "drizzle-orm/pglite/migrator";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { expect, test } from "vitest";
import { z } from "zod";
import { createEventSpy } from "../support/events.js";

test("on PGlite a worker enqueues, runs, commits, is woken and stops", {
  timeout: 60_000,
}, async () => {
  const client = new PGlite();
  const db = drizzle(client);
  await migrate(db, { migrationsFolder: "drizzle" });
  await db.execute(sql`create table effects (n integer not null)`);
  const settings = sql`select name, setting from pg_settings where context = 'user' order by name`;
  const before = await db.execute(settings);
  const spy = createEventSpy();
  const queue = createQueue({
    jobs: defineJobs({
      effect: defineJob({
        payload: z.object({ n: z.number() }),
        idempotencyKey: ({ n }) => `${n}`,
      }),
      plain: defineJob({ payload: z.object({}), result: z.object({ ok: z.boolean() }) }),
    }),
    instrumentation: spy.listener,
  });
  const worker = createWorker({
    queue,
    db,
    pollIntervalMs: 60_000,
    handlers: {
      effect: ({ payload: { n }, commit }) =>
        commit(async (tx) => {
          await tx.execute(sql`insert into effects (n) values (${n})`);
          await queue.enqueue(tx, "plain", {});
        }),
      plain: () => ({ ok: true }),
    },
  });
  await worker.start();
  const items = Array.from({ length: 20 }, (_, n) => ({ name: "effect" as const, payload: { n } }));
  await db.transaction((tx) => queue.enqueueMany(tx, items));
  for (let done = 1; done <= 40; done += 1) await spy.next("job.done", undefined, 20_000);
  expect((await db.transaction((tx) => queue.enqueue(tx, "effect", { n: 3 }))).created).toBe(false);
  expect(await worker.stop()).toEqual({ released: 0, abandoned: [] });

  const effects = await db.execute(sql`select n from effects order by n`);
  expect(effects.rows).toEqual(Array.from({ length: 20 }, (_, n) => ({ n })));
  const left = await db.execute(
    sql`select count(*)::int as count from queue_jobs where status <> 'done'`,
  );
  expect(left.rows).toEqual([{ count: 0 }]);
  expect(spy.all("statement.errored")).toEqual([]);
  // The app's instance is the app's: still open, and its one session as it was.
  expect((await db.execute(settings)).rows).toEqual(before.rows);
  await client.close();
});
