import { EventEmitter, once } from "node:events";
import { drizzle as drizzleNodePostgres } from "drizzle-orm/node-postgres";
import { drizzle as drizzlePostgresJs } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import { z } from "zod";
import { createQueue, defineJob, defineJobs } from "../../src/index.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { waitUntil } from "../support/wait-until.js";

/** Jobs of every kind that enqueue tells apart. */
export const jobs = defineJobs({
  report: defineJob({ payload: z.object({ id: z.string(), pages: z.number().default(3) }) }),
  keyed: defineJob({
    payload: z.object({ id: z.string(), note: z.string().optional() }),
    idempotencyKey: (p) => p.id,
  }),
  anything: defineJob({ payload: z.unknown(), queue: "misc", priority: 7, maxAttempts: 2 }),
  constructor: defineJob({ payload: z.unknown() }),
  ["__proto__"]: defineJob({ payload: z.unknown() }),
});

export const queue = createQueue({ jobs });

type Db = ReturnType<typeof drizzleNodePostgres>;
export type Tx = Parameters<Parameters<Db["transaction"]>[0]>[0];

/** A test file's database, with both drivers on it. */
export interface Fixture {
  readonly database: TestDatabase;
  readonly db: Db;
  /** Typed as the other driver's, since both take the same statements. */
  readonly drivers: Readonly<Record<"node-postgres" | "postgres.js", Db>>;
  rows(where?: string): Promise<Record<string, unknown>[]>;
  close(): Promise<void>;
}

export async function openFixture(): Promise<Fixture> {
  const database = await createDatabase();
  const client = postgres(database.url, { max: 5, onnotice: () => undefined });
  const db = drizzleNodePostgres(database.pool);
  return {
    database,
    db,
    drivers: { "node-postgres": db, "postgres.js": drizzlePostgresJs(client) as unknown as Db },
    async rows(where = "true") {
      const { rows } = await database.pool.query<Record<string, unknown>>(
        `select id::int, queue, name, payload, priority, max_attempts, attempts, status, idempotency_key,
           encode(input_hash, 'hex') as input_hash, jsonb_typeof(payload) as type,
           (extract(epoch from available_at - created_at) * 1000)::float8 as delay_ms,
           (extract(epoch from available_at) * 1000)::float8 as available_ms,
           (extract(epoch from clock_timestamp() - created_at) * 1000)::float8 as age_ms
         from queue_jobs where ${where} order by id`,
      );
      return rows;
    },
    async close() {
      await client.end();
      await database.drop();
    },
  };
}

/** Counts what a transaction sends; `before` runs ahead of each statement, counted from 1. */
export function countingStatements<T extends Tx>(
  tx: T,
  before?: (statement: number) => Promise<void>,
): { readonly tx: T; readonly sent: () => number } {
  let sent = 0;
  const counting = new Proxy(tx, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (property !== "execute" || typeof value !== "function") return value;
      return (...parameters: unknown[]) => {
        sent += 1;
        const send = () => Reflect.apply(value, target, parameters) as PromiseLike<unknown>;
        return before === undefined ? send() : before(sent).then(send);
      };
    },
  });
  return { tx: counting, sent: () => sent };
}

/** Waits until that many sessions of the database wait for a lock. */
export async function untilWaiting(database: TestDatabase, sessions = 1): Promise<void> {
  await waitUntil(`${sessions} sessions wait for a lock`, async () => {
    const { rows } = await database.pool.query<{ waiting: number }>(
      `select count(*)::int as waiting from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock'`,
    );
    return (rows[0]?.waiting ?? 0) >= sessions;
  });
}

/** A transaction that stays open until it is told how to end. */
export interface OpenTransaction {
  readonly tx: Tx;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

export async function openTransaction(db: Db): Promise<OpenTransaction> {
  const abort = new Error("rolled back on purpose");
  const ending = new EventEmitter();
  let ended: Promise<unknown> = Promise.resolve();
  const tx = await new Promise<Tx>((resolve, reject) => {
    ended = db.transaction(async (opened) => {
      resolve(opened);
      const [failure] = (await once(ending, "end")) as [Error | undefined];
      if (failure !== undefined) throw failure;
    });
    ended.catch(reject);
  });
  return {
    tx,
    async commit() {
      ending.emit("end");
      await ended;
    },
    async rollback() {
      ending.emit("end", abort);
      await ended.catch((error: unknown) => {
        if (error !== abort) throw error;
      });
    },
  };
}
