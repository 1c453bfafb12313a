import { readFileSync } from "node:fs";
import pg from "pg";
import { startPostgresServer } from "../../examples/support/postgres-server.js";

/** What a stretch of work cost the database server. */
export interface ServerCost {
  /** Processor time of every process of the server, ended ones included, in milliseconds. */
  readonly cpuMs: number;
  readonly walBytes: number;
}

/** The server that all contenders of a run share. */
export interface BenchServer {
  readonly version: string;
  /** Every setting that was given to the server. */
  readonly settings: Readonly<Record<string, string>>;
  urlOf(database: string): string;
  create(database: string, template?: string): Promise<void>;
  drop(database: string): Promise<void>;
  /** Runs a statement in a database, on a connection of its own. */
  query<Row extends object>(database: string, text: string): Promise<readonly Row[]>;
  /** A connection that is kept, for what is asked often. */
  connect(database: string): Promise<pg.Client>;
  /** What the server has cost since it was started. */
  cost(): Promise<ServerCost>;
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
      return { cpuMs: serverCpuMs(postmaster), walBytes: Number(answer.rows[0].wal) };
    },
    async dispose() {
      await own.end();
      await server.dispose();
    },
  };
}

/** What happened between two readings. */
export function between(before: ServerCost, after: ServerCost): ServerCost {
  return { cpuMs: after.cpuMs - before.cpuMs, walBytes: after.walBytes - before.walBytes };
}

/** The kernel counts processor time in ticks of 10 ms. */
const TICK_MS = 10;

/** Processor time of a process and of its children, living and ended. */
function serverCpuMs(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(/\s+/);
  let ticks = ticksOf(pid);
  for (const child of children) ticks += ticksOf(Number(child));
  return ticks * TICK_MS;
}

/** Of one process, and of those of its children that have ended. */
function ticksOf(pid: number): number {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    // It has ended meanwhile: then its parent counts it.
    return 0;
  }
  // The second field is the name, in parentheses, and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15).map(Number);
  return user + system + endedUser + endedSystem;
}
