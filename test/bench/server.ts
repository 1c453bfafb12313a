import pg from "pg";
import { startPostgresServer } from "../../examples/support/postgres-server.js";
import { processCpuMs } from "./processor-time.js";
import type { Store } from "./store.js";

/** What a stretch of work cost the database server. */
export interface ServerCost {
  /** Processor time of every process of the server, ended ones included, in milliseconds. */
  readonly cpuMs: number;
  readonly walBytes: number;
}

/** The server that all contenders of a run share. */
export interface BenchServer extends Store {
  readonly version: string;
  /** How long one commit takes that writes next to nothing, in milliseconds, median. */
  readonly commitMs: number;
  /** Every setting that was given to the server. */
  readonly settings: Readonly<Record<string, string>>;
  create(database: string, template?: string): Promise<void>;
  /** Runs a statement in a database, on a connection of its own. */
  query<Row extends object>(database: string, text: string): Promise<readonly Row[]>;
  /** A connection that is kept, for what is asked often. */
  connect(database: string): Promise<pg.Client>;
  /** Waits until nobody is connected to a database any more, so that all has been counted. */
  untilLeft(database: string): Promise<void>;
  dispose(): Promise<void>;
}

/**
 * As durable as PostgreSQL is by default. Checkpoints are kept out of the
 * measured stretches, so that WAL is what the statements write and no full pages.
 */
const DURABLE = {
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  shared_buffers: "1GB",
  max_wal_size: "32GB",
  checkpoint_timeout: "1d",
  max_connections: "300",
  // Counts nothing until a benchmark asks for it in its database.
  shared_preload_libraries: "pg_stat_statements",
  "pg_stat_statements.track": "none",
};

/** Starts it; `isDurable` off answers commits before they are on disk, for everybody alike. */
export async function startBenchServer(isDurable: boolean): Promise<BenchServer> {
  const settings = { ...DURABLE, ...(isDurable ? {} : { fsync: "off" }) };
  const server = await startPostgresServer({ settings });
  const urlOf = (database: string): string => server.url.replace(/\/postgres$/, `/${database}`);
  const connect = async (database: string): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: urlOf(database) });
    await client.connect();
    return client;
  };
  const own = await connect("postgres");
  const { rows } = await own.query("select split_part(pg_read_file('postmaster.pid'), chr(10), 1)");
  const postmaster = Number(Object.values(rows[0] ?? {})[0]);
  return {
    version: server.version,
    settings,
    commitMs: await commitMsOf(own),
    urlOf,
    connect,
    async create(database, template) {
      await own.query(
        template === undefined
          ? `create database ${database}`
          : // Not file_copy: that makes a checkpoint, and the WAL measured next would hold full pages.
            `create database ${database} template ${template} strategy wal_log`,
      );
    },
    async drop(database) {
      await own.query(`drop database if exists ${database} with (force)`);
    },
    async query(database, text) {
      const client = await connect(database);
      try {
        return (await client.query(text)).rows;
      } finally {
        await client.end();
      }
    },
    async cost() {
      const answer = await own.query("select (pg_current_wal_insert_lsn() - '0/0')::float8 as wal");
      return { cpuMs: processCpuMs(postmaster), walBytes: Number(answer.rows[0].wal) };
    },
    async untilLeft(database) {
      for (const untilMs = performance.now() + 5_000; performance.now() < untilMs; ) {
        const text = "select count(*)::int as sessions from pg_stat_activity where datname = $1";
        if ((await own.query(text, [database])).rows[0].sessions === 0) return;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
    async dispose() {
      await own.end();
      await server.dispose();
    },
  };
}

/** Each writes a few bytes to the log, so that its commit is waited for. */
async function commitMsOf(client: pg.Client): Promise<number> {
  const took: number[] = [];
  for (let count = 0; count < 200; count += 1) {
    const beganMs = performance.now();
    await client.query("select pg_logical_emit_message(true, 'bench', '')");
    took.push(performance.now() - beganMs);
  }
  return took.toSorted((a, b) => a - b)[100] ?? Number.NaN;
}

/** What happened between two readings. */
export function between(before: ServerCost, after: ServerCost): ServerCost {
  return { cpuMs: after.cpuMs - before.cpuMs, walBytes: after.walBytes - before.walBytes };
}
