import type { Bench } from "./benchmark.js";
import { startChild } from "./child.js";
import type { Entry } from "./contender.js";
import { type BenchServer, between, type ServerCost } from "./server.js";

/** What one drain of one contender came to. */
export interface DrainRun extends Statistics {
  readonly jobsPerSecond: number;
  readonly serverCpuUs: number;
  readonly nodeCpuUs: number;
  readonly walBytes: number;
  readonly startMs: number;
  readonly handled: number;
  readonly isComplete: boolean;
  /** Jobs that ran more than once. */
  readonly repeated: number;
}

/** What the server has counted over the whole drain; NaN where there is no such count. */
interface Statistics {
  /** Transactions that were committed for a thousand jobs. */
  readonly transactions: number;
  /** The share of updates of the jobs table that touched no index, in percent. */
  readonly hotPercent: number;
}

export interface DrainOptions {
  readonly jobs: number;
  readonly handlerMs: number;
  readonly capMs: number;
  /** Another session keeps a transaction with a snapshot open meanwhile. */
  readonly holdsSnapshot?: boolean;
  /** Writes a processor profile of the worker to this file. */
  readonly profile?: string;
}

/** How many jobs go before the clock starts. */
const warmUpOf = (jobs: number): number => Math.min(5_000, Math.floor(jobs / 10));

/** Drains a fresh database with one process. */
export async function drainOnce(
  bench: Bench,
  entry: Entry,
  { jobs, holdsSnapshot = false, ...task }: DrainOptions,
): Promise<DrainRun> {
  const database = "drain";
  const store = bench.storeOf(entry);
  const warmUp = warmUpOf(jobs);
  await bench.seed(entry, database, jobs + warmUp);
  const { concurrency } = bench;
  const url = store.urlOf(database);
  const child = await startChild(entry, { url, concurrency, settings: entry.settings });
  const release = holdsSnapshot ? await holdSnapshot(bench.server, database) : undefined;
  try {
    let before: ServerCost | undefined;
    const reading = child.warm.then(async () => {
      before = await store.cost();
    });
    const result = await child.call("drain", { ...task, jobs: jobs + warmUp, warmUp });
    const after = await store.cost();
    await reading;
    const { handled, measured } = result;
    const cost = before === undefined ? { cpuMs: 0, walBytes: 0 } : between(before, after);
    await child.kill();
    await release?.();
    return {
      jobsPerSecond: (measured / result.elapsedMs) * 1_000,
      serverCpuUs: (cost.cpuMs * 1_000) / measured,
      nodeCpuUs: (result.nodeCpuMs * 1_000) / measured,
      walBytes: cost.walBytes / measured,
      startMs: result.startMs,
      handled,
      isComplete: result.isComplete,
      repeated: handled - result.distinct,
      ...(await statisticsOf(bench, entry, database, handled)),
    };
  } finally {
    await child.kill();
    await store.drop(database);
  }
}

async function holdSnapshot(server: BenchServer, database: string): Promise<() => Promise<void>> {
  const client = await server.connect(database);
  await client.query("begin isolation level repeatable read");
  await client.query("select pg_current_xact_id(), count(*) from pg_class");
  return () => client.end();
}

async function statisticsOf(
  { server }: Bench,
  entry: Entry,
  database: string,
  handled: number,
): Promise<Statistics> {
  if (entry.database === "redis") return { transactions: Number.NaN, hotPercent: Number.NaN };
  // Sessions hand in their counts at the latest when they end.
  await server.untilLeft(database);
  const [counted] = await server.query<{ transactions: number; hot: number | null }>(
    database,
    COUNTS,
  );
  return {
    transactions: ((counted?.transactions ?? Number.NaN) * 1_000) / handled,
    hotPercent: counted?.hot ?? Number.NaN,
  };
}

/** The jobs table is the one that was updated most. */
const COUNTS = `
  select xact_commit::float8 as transactions,
    (select 100.0::float8 * n_tup_hot_upd / nullif(n_tup_upd, 0) from pg_stat_user_tables
      order by n_tup_upd desc limit 1) as hot
  from pg_stat_database where datname = current_database()`;
