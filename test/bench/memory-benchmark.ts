import { type Bench, type Benchmark, type Cell, figure, type Result } from "./benchmark.js";
import { startChild } from "./child.js";
import type { Entry } from "./contender.js";
import { sleep } from "./live.js";
import { prepare } from "./prepare.js";

/** Whether a worker's memory and its tables grow with the jobs that have gone through. */
function memoryBenchmark(name: string, title: string, entries: RegExp): Benchmark {
  return {
    name,
    title,
    async run(bench): Promise<Result> {
      const rows: Result["rows"][number][] = [];
      for (const entry of bench.entries(entries))
        rows.push({ label: entry.name, cells: await passThrough(bench, entry) });
      return {
        columns: [
          "heap after a tenth, MiB",
          "heap after all, MiB",
          "growth, MiB",
          "resident at the end, MiB",
          "table, MiB",
          "indexes, MiB",
          "rows left",
        ],
        rows,
        notes: [
          `${(bench.jobs * 10).toLocaleString("en-US")} jobs in ten portions, enqueued while the worker runs them; handlers that do nothing. Measured once.`,
          "Heap: after a collection, in the worker's process. Table: that of the jobs, with autovacuum as it is by default.",
          "Resident: an import of drizzle-orm/node-postgres alone took 284 MiB in the same Node, one of pg 53, one of nothing 42.",
        ],
      };
    },
  };
}

/** Ours, as part of the report. */
export const memory = memoryBenchmark(
  "memory",
  "A worker's memory, and its table, over ten times as many jobs",
  /^drizzle-queue, (done: 0|rows kept \(default\))$/,
);

/** The others beside it, on request. */
export const memoryOfPeers = memoryBenchmark(
  "memory-peers",
  "The same, of the others",
  /tuned|batch/,
);

async function passThrough(bench: Bench, entry: Entry): Promise<readonly Cell[]> {
  const { server, concurrency, jobs } = bench;
  await prepare(bench, entry, "memory");
  const options = { url: server.urlOf("memory"), concurrency, settings: entry.settings };
  const feeder = await startChild(entry, options);
  const worker = await startChild(entry, options, ["--expose-gc"]);
  const heaps: number[] = [];
  let resident = 0;
  try {
    await worker.call("work", { handlerMs: 0 });
    for (let portion = 1; portion <= 10; portion += 1) {
      await feeder.call("seed", jobs);
      while ((await worker.call("handled")) < portion * jobs) await sleep(20);
      const { heapBytes, rssBytes } = await worker.call("usage");
      heaps.push(heapBytes / 2 ** 20);
      resident = rssBytes / 2 ** 20;
      bench.progress(
        `${entry.name}: ${portion * jobs} jobs, heap ${(heapBytes / 2 ** 20).toFixed(1)} MiB`,
      );
    }
    await worker.call("stop");
    const [first = 0, last = 0] = [heaps[0], heaps.at(-1)];
    const [size] = await server.query<Size>("memory", SIZES);
    const [count] = await server.query<{ rows: number }>(
      "memory",
      `select count(*)::float8 as rows from ${size?.name}`,
    );
    const figures = [first, last, last - first, resident, size?.table, size?.indexes, count?.rows];
    return figures.map((value) => figure([value ?? Number.NaN]));
  } finally {
    await feeder.kill();
    await worker.kill();
    await server.drop("memory");
  }
}

interface Size {
  readonly name: string;
  readonly table: number;
  readonly indexes: number;
}

/** The jobs table is the one that takes most. */
const SIZES = `
  select relid::regclass::text as name, pg_table_size(relid) / 1048576.0::float8 as table,
    pg_indexes_size(relid) / 1048576.0::float8 as indexes
  from pg_stat_user_tables order by pg_total_relation_size(relid) desc limit 1`;
