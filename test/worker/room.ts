import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import type pg from "pg";
import { createDatabase } from "../support/database.js";
import { createEventSpy, type EventSpy } from "../support/events.js";

/** What a test of the worker needs: a database of its own, and a spy for its events. */
export interface Room {
  readonly url: string;
  readonly pool: pg.Pool;
  readonly db: NodePgDatabase;
  /** Sees the events of the present test only. */
  readonly spy: EventSpy;
  /** The row of a job, or undefined when it is gone. */
  job(id: number): Promise<JobRow | undefined>;
  /** Rows of a query, for what `job` does not show. */
  rows<T extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<T[]>;
  /** Empties the tables of the queue for the next test. */
  clear(): Promise<void>;
  /** @throws When a worker was left running or a transaction open. */
  close(): Promise<void>;
}

/** A job as the database has it; instants are milliseconds since 1970. */
export interface JobRow {
  readonly status: string;
  readonly outcome: string | null;
  readonly attempts: number;
  readonly leaseVersion: number;
  readonly lockedBy: string | null;
  readonly lastError: string | null;
  readonly errors: readonly StoredAttemptError[];
  readonly result: unknown;
  readonly availableMs: number;
  readonly startedMs: number;
}

/** An entry of `error_history`. */
export interface StoredAttemptError {
  readonly attempt: number;
  readonly at: string;
  readonly code: string | null;
  readonly name: string;
  readonly message: string;
  readonly stack: string | null;
}

const JOB_QUERY = `
  select status, outcome, attempts, lease_version as "leaseVersion", locked_by as "lockedBy",
    last_error as "lastError", coalesce(error_history, '[]') as errors, result,
    (extract(epoch from available_at) * 1000)::float8 as "availableMs",
    (extract(epoch from started_at) * 1000)::float8 as "startedMs"
  from queue_jobs where id = $1`;

/** Opens a room on a fresh database. */
export async function openRoom(): Promise<Room> {
  const database = await createDatabase();
  const { pool, url } = database;
  let spy = createEventSpy();
  return {
    url,
    pool,
    db: drizzle(pool),
    get spy() {
      return spy;
    },
    job: async (id) => (await pool.query<JobRow>(JOB_QUERY, [id])).rows[0],
    rows: async <T extends pg.QueryResultRow>(text: string, values: unknown[] = []) =>
      (await pool.query<T>(text, values)).rows,
    async clear() {
      await pool.query(
        "truncate queue_jobs, queue_processed_keys, queue_workers, queue_controls, queue_schedules cascade",
      );
      spy = createEventSpy();
    },
    close: database.drop,
  };
}

/** A promise that the test resolves when it wants something to go on. */
export interface Gate {
  readonly opened: Promise<void>;
  open(): void;
}

/** Creates a closed gate. */
export function createGate(): Gate {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** One handler for all jobs of a queue. */
export function forEveryJob<M extends object, H>(
  queue: { readonly jobs: M },
  handler: H,
): Record<keyof M, H> {
  return Object.fromEntries(Object.keys(queue.jobs).map((name) => [name, handler])) as Record<
    keyof M,
    H
  >;
}
