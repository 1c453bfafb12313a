import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy } from "../support/events.js";
import { waitUntil } from "../support/wait-until.js";

const jobs = defineJobs({
  effect: defineJob({
    payload: z.object({ n: z.number() }),
    idempotencyKey: ({ n }) => `effect ${n}`,
    backoff: fixed({ delayMs: 50 }),
    leaseMs: 2_000,
  }),
  delayed: defineJob({ payload: z.object({}), result: z.object({ ok: z.boolean() }) }),
});

let database: TestDatabase;

beforeEach(async () => {
  database = await createDatabase();
  await database.pool.query("create table public.effects (n integer not null)");
});

afterEach(() => database.drop());

/** What an administrator may have set for a database, each with nothing else said. */
const SETTINGS: readonly (readonly [what: string, ...statements: string[]])[] = [
  ["serializable by default", "default_transaction_isolation = 'serializable'"],
  ["repeatable read by default", "default_transaction_isolation = 'repeatable read'"],
  ["short timeouts", "statement_timeout = '2s'", "lock_timeout = '200ms'"],
  [
    "sessions and transactions that may not idle",
    "idle_session_timeout = '1s'",
    "idle_in_transaction_session_timeout = '1s'",
  ],
  ["a limit for whole transactions, where the server has one", "transaction_timeout = '3s'"],
  ["an odd time zone and date style", "timezone = 'America/St_Johns'", "datestyle = 'SQL, DMY'"],
  ["another odd time zone", "timezone = 'Pacific/Kiritimati'", "intervalstyle = 'sql_standard'"],
  ["an empty search path", "search_path = ''"],
  ["arrays without nulls, no index scans", "array_nulls = off", "enable_indexscan = off"],
  ["old string literals", "standard_conforming_strings = off", "bytea_output = 'escape'"],
];

async function runJobs(throughPooler = false): Promise<void> {
  // An app closes what idles in its pool before the server does.
  const pool = new pg.Pool({ connectionString: database.url, max: 10, idleTimeoutMillis: 200 });
  pool.on("error", () => undefined);
  const db = drizzle(pool);
  const spy = createEventSpy();
  const queue = createQueue({ jobs, instrumentation: spy.listener });
  const workers = [1, 2].map(() =>
    createWorker({
      queue,
      db,
      throughPooler,
      handlers: {
        effect: ({ payload, job, commit }) => {
          if (payload.n % 10 === 0 && job.attempt === 1) throw new Error("once");
          return commit(async (tx) => {
            await tx.execute(sql`insert into public.effects (n) values (${payload.n})`);
          });
        },
        delayed: () => ({ ok: true }),
      },
    }),
  );
  await Promise.all(workers.map((worker) => worker.start()));
  const items = Array.from({ length: 200 }, (_, n) => ({
    name: "effect" as const,
    payload: { n },
  }));
  await db.transaction((tx) => queue.enqueueMany(tx, items.slice(0, 100)));
  // One after the other: serializable transactions of the app's own may conflict, as ever.
  for (const { payload } of items.slice(100)) await queue.enqueueNow(db, "effect", payload);
  const again = await db.transaction((tx) => queue.enqueue(tx, "effect", { n: 7 }));
  expect(again.created).toBe(false);
  const runAt = new Date(Date.now() + 1_500);
  const { id } = await queue.enqueueNow(db, "delayed", {}, { runAt });
  const started = await spy.next("job.started", ({ jobId }) => jobId === id).then(() => Date.now());
  await waitUntil("all are done", () => spy.all("job.done").length === 201, { timeoutMs: 20_000 });
  await Promise.all(workers.map((worker) => worker.stop()));
  await pool.end();

  expect(started - runAt.getTime()).toBeGreaterThanOrEqual(-1);
  expect(started - runAt.getTime()).toBeLessThan(1_000);
  expect(spy.all("statement.errored")).toEqual([]);
  // The worker's own connections idle as they must, the listening one for seconds.
  expect(spy.all("connection.lost")).toEqual([]);
  expect(spy.all("lease.lost")).toEqual([]);
  expect(spy.all("attempt.errored")).toHaveLength(20);
}

async function effects(): Promise<readonly unknown[]> {
  return (await database.pool.query("select n from public.effects order by n")).rows;
}

const EACH_ONCE = Array.from({ length: 200 }, (_, n) => ({ n }));

/** Makes settings the database's own, as far as the server knows them. */
async function setForDatabase(settings: readonly string[]): Promise<void> {
  for (const setting of settings) {
    const [name] = setting.split(" ");
    const { rowCount } = await database.pool.query("select from pg_settings where name = $1", [
      name,
    ]);
    if (rowCount === 0) continue;
    await database.pool.query(`alter database ${database.name} set ${setting}`);
  }
}

describe("every job runs once, no statement errors and no connection is lost", () => {
  test.each(SETTINGS)("under %s", async (_what, ...settings) => {
    await setForDatabase(settings);
    await runJobs();
    expect(await effects()).toEqual(EACH_ONCE);
  });

  test("under all that a transaction can undo, where no session is the worker's own", async () => {
    const ofSessions = /idle_session|transaction_timeout|timezone/;
    await setForDatabase(
      SETTINGS.flatMap(([, ...settings]) => settings).filter(
        (setting) => !ofSessions.test(setting),
      ),
    );
    await database.pool.query(`alter database ${database.name} set extra_float_digits = 0`);
    await runJobs(true);
    expect(await effects()).toEqual(EACH_ONCE);
  });

  test("with tables and functions of the same names in a schema that is searched first", async () => {
    await database.pool.query("create schema lookalike");
    for (const table of [
      "queue_jobs",
      "queue_processed_keys",
      "queue_workers",
      "queue_controls",
      "queue_schedules",
    ]) {
      await database.pool.query(`create table lookalike.${table} (id text)`);
    }
    for (const [signature, type] of LOOKALIKES) {
      await database.pool.query(
        `create function lookalike.${signature} returns ${type} language plpgsql as
           $$ begin raise exception 'the look-alike of ${signature} was called'; end $$`,
      );
    }
    await database.pool.query(
      `alter database ${database.name} set search_path = lookalike, public`,
    );
    await runJobs();
    expect(await effects()).toEqual(EACH_ONCE);
  });
});

/** The same as PostgreSQL's own, or better fits for what a careless statement hands over. */
const LOOKALIKES = [
  ["statement_timestamp()", "timestamptz"],
  ["pg_notify(text, text)", "void"],
  ["convert_to(text, text)", "bytea"],
  ["sha256(bytea)", "bytea"],
  ["sha256(text)", "bytea"],
  ["set_config(text, text, boolean)", "text"],
  ["date_part(text, timestamptz)", "float8"],
] as const;
