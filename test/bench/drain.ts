import type pg from "pg";
import { startChild } from "./child.js";
import type { Entry } from "./contender.js";
import { type BenchServer, between, type ServerCost } from "./server.js";

/** What one drain of one contender came to. */
export interface DrainRun {
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

export interface DrainOptions {
  readonly jobs: number;
  readonly handlerMs: number;
  readonly concurrency: number;
  readonly capMs: number;
  /** Another session keeps a transaction with a snapshot open meanwhile. */
  readonly holdsSnapshot?: boolean;
  /** Writes a processor profile of the worker to this file. */
  readonly profile?: string;
}

/** Fills a database that every drain of a family starts from a copy of. */
export async function prepareFamily(
  server: BenchServer,
  entry: Entry,
  jobs: number,
): Promise<string> {
  const database = `seed_${entry.family}_${jobs}`;
  await server.create(database);
  const child = await startChild(entry, {
    settings: entry.settings,
    url: server.urlOf(database),
    concurrency: 2,
  });
  await child.call("install");
  await child.call("seed", jobs);
  await child.call("stop");
  await child.kill();
  await server.query(database, "vacuum analyze");
  return database;
}

/** Drains a fresh copy of the seed with one process. */
export async function drainOnce(
  server: BenchServer,
  entry: Entry,
  seed: string,
  options: DrainOptions,
): Promise<DrainRun> {
  const database = "drain";
  await server.drop(database);
  await server.create(database, seed);
  const { concurrency, holdsSnapshot, ...task } = options;
  const child = await startChild(entry, {
    url: server.urlOf(database),
    concurrency,
    settings: entry.settings,
  });
  const other = holdsSnapshot === true ? await holdSnapshot(server, database) : undefined;
  try {
    let before: ServerCost | undefined;
    const reading = child.first.then(async () => {
      before = await server.cost();
    });
    const result = await child.call("drain", task);
    const after = await server.cost();
    await reading;
    const cost = before === undefined ? { cpuMs: 0, walBytes: 0 } : between(before, after);
    return {
      jobsPerSecond: (result.handled / result.elapsedMs) * 1_000,
      serverCpuUs: (cost.cpuMs * 1_000) / result.handled,
      nodeCpuUs: (result.nodeCpuMs * 1_000) / result.handled,
      walBytes: cost.walBytes / result.handled,
      startMs: result.startMs,
      handled: result.handled,
      isComplete: result.isComplete,
      repeated: result.handled - result.distinct,
    };
  } finally {
    await child.kill();
    await other?.end();
    await server.drop(database);
  }
}

async function holdSnapshot(server: BenchServer, database: string): Promise<pg.Client> {
  const client = await server.connect(database);
  await client.query("begin isolation level repeatable read");
  await client.query("select pg_current_xact_id(), count(*) from pg_class");
  return client;
}
