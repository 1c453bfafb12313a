import type { Bench } from "./benchmark.js";
import { startChild } from "./child.js";
import type { Entry } from "./contender.js";
import { ENTRIES, REDIS_ENTRY } from "./entries.js";
import type { RedisServer } from "./redis-server.js";
import type { BenchServer } from "./server.js";
import type { Store } from "./store.js";

/** Gives the database with so many jobs in it that an entry starts from copies of. */
export type Seeds = (entry: Entry, jobs: number) => Promise<string>;

/** Fills each such database once for all benchmarks of a run. */
export function createSeeds(server: BenchServer): Seeds {
  const made = new Map<string, Promise<string>>();
  return (entry, jobs) => {
    const database = `seed_${entry.family}_${jobs}`;
    const seed = made.get(database) ?? makeSeed(server, entry, database, jobs);
    made.set(database, seed);
    return seed;
  };
}

async function makeSeed(
  server: BenchServer,
  entry: Entry,
  database: string,
  jobs: number,
): Promise<string> {
  await server.create(database);
  await fill(server, entry, database, jobs);
  await server.query(database, "vacuum analyze");
  return database;
}

async function fill(store: Store, entry: Entry, database: string, jobs: number): Promise<void> {
  const options = { settings: entry.settings, url: store.urlOf(database), concurrency: 2 };
  const child = await startChild(entry, options);
  await child.call("install");
  await child.call("seed", jobs);
  await child.call("stop");
  await child.kill();
}

/** What a benchmark works with, for one benchmark's sizes. */
export function openBench(
  options: Pick<Bench, "server" | "jobs" | "rounds" | "seconds" | "concurrency"> & {
    readonly redis: RedisServer | undefined;
    readonly seeds: Seeds;
  },
): Bench {
  const { redis, seeds, ...sizes } = options;
  const { server } = sizes;
  const storeOf = (entry: Entry): Store =>
    entry.database === "redis" && redis !== undefined ? redis : server;
  return {
    ...sizes,
    storeOf,
    entries: (pattern = /./) =>
      [...ENTRIES, ...(redis === undefined ? [] : [REDIS_ENTRY])].filter(({ name }) =>
        pattern.test(name),
      ),
    progress: (text) =>
      void process.stderr.write(`${new Date().toISOString().slice(11, 19)}  ${text}\n`),
    async seed(entry, database, jobs) {
      const store = storeOf(entry);
      await store.drop(database);
      if (store === server) await server.create(database, await seeds(entry, jobs));
      else await fill(store, entry, database, jobs);
    },
  };
}
