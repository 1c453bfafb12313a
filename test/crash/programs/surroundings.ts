import process from "node:process";
import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import pg from "pg";
import { LEVELS, type Level } from "../plan/level.js";

/** Whose queue is tried. */
export type Contender = "drizzle-queue" | "naive";

/** What a process of the fleet is told when it is started. */
export interface Surroundings {
  /** The process and its incarnation, such as `w3.2`. */
  readonly who: string;
  readonly role: "worker" | "producer";
  readonly index: number;
  /** The database, through the process's own proxy. */
  readonly url: string;
  /** Where ledgers are written. */
  readonly folder: string;
  readonly level: Level;
  readonly seed: number;
  /** Whose workers they are: the library's, or those of the queue that serves as a control. */
  readonly contender: Contender;
  /** When the run began, on the clock that all processes of a machine share. */
  readonly startedAtMs: number;
}

/** The name under which {@link Surroundings} travel. */
export const SURROUNDINGS = "CRASH_SURROUNDINGS";

/** Reads what the harness says. */
export function readSurroundings(): Surroundings {
  const text = process.env[SURROUNDINGS];
  if (text === undefined) throw new Error(`${SURROUNDINGS} is not set: the harness starts this.`);
  const given = JSON.parse(text) as Surroundings & { readonly level: Level | string };
  const level = typeof given.level === "string" ? LEVELS[given.level] : given.level;
  return { ...given, level: level as Level };
}

/** A payload's mark: it may not turn up in any log. */
export const MARKER = "MARKER-5b1e";

/** Milliseconds on the clock that all processes of a machine share and that nothing shifts. */
export const machineMs = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000;

/** What an app's own pool is to be. */
export interface PoolSettings {
  /** Shown in `pg_stat_activity`. */
  readonly name: string;
  readonly max: number;
  /** How long the client waits for an answer; 0 for ever. */
  readonly queryTimeoutMs: number;
}

/** A pool as an app would make it, whose sessions say which process they belong to. */
export function openPool(
  { url, who }: Surroundings,
  { name, max, queryTimeoutMs }: PoolSettings,
): { readonly pool: pg.Pool; readonly db: NodePgDatabase & { readonly $client: pg.Pool } } {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: name,
    options: `-c crash.who=${who}`,
    max,
    connectionTimeoutMillis: 5_000,
    ...(queryTimeoutMs > 0 && { query_timeout: queryTimeoutMs }),
    idleTimeoutMillis: 2_000,
  });
  // What an app has to do by itself: without it, an idle session's end would end the process.
  pool.on("error", () => undefined);
  return { pool, db: drizzle(pool) };
}
