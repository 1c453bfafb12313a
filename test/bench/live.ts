import type { Produced } from "./bench-process.js";
import { type Bench, type Cell, figure, percentile } from "./benchmark.js";
import { type Child, startChild } from "./child.js";
import type { Entry } from "./contender.js";

/** Lets time pass where time is what is measured. */
export const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));

/** A worker process and one that enqueues, on a fresh database. */
export interface Live {
  readonly worker: Child;
  readonly producer: Child;
  readonly database: string;
}

/** Runs something while a worker is at work. */
export async function withLive<T>(
  bench: Bench,
  entry: Entry,
  handlerMs: number,
  run: (live: Live) => Promise<T>,
): Promise<T> {
  const database = "live";
  const store = bench.storeOf(entry);
  await store.drop(database);
  await store.create(database);
  if (entry.database === "postgresql") await countStatements(bench, database);
  const options = {
    url: store.urlOf(database),
    concurrency: bench.concurrency,
    settings: entry.settings,
  };
  const producer = await startChild(entry, options);
  await producer.call("install");
  const worker = await startChild(entry, options);
  try {
    await worker.call("work", { handlerMs });
    return await run({ worker, producer, database });
  } finally {
    await producer.kill();
    await worker.kill();
    await store.drop(database);
  }
}

/** For sessions that begin from now on; read only by the benchmark that counts statements. */
async function countStatements({ server }: Bench, database: string): Promise<void> {
  await server.query(database, "create extension pg_stat_statements");
  await server.query(database, `alter database ${database} set pg_stat_statements.track = 'top'`);
}

/** Waits until the worker has started so many, or until it has clearly lost some. */
export async function untilHandled(worker: Child, count: number, withinMs: number): Promise<void> {
  const untilMs = performance.now() + withinMs;
  while ((await worker.call("handled")) < count && performance.now() < untilMs) await sleep(20);
}

/** How long jobs took to start, in milliseconds. */
export interface Delays {
  readonly p50: number;
  readonly p99: number;
  readonly highest: number;
  readonly missing: number;
}

/** From the call to enqueue, from its commit, or from the moment it was due, to the start of the handler. */
export function delays(
  produced: readonly Produced[],
  startedAt: readonly (number | null)[],
  since: keyof Produced,
): Delays {
  const sorted = produced
    .flatMap((job, number) => {
      const started = startedAt[number];
      return typeof started === "number" ? [started - job[since]] : [];
    })
    .toSorted((a, b) => a - b);
  return {
    p50: percentile(sorted, 0.5),
    p99: percentile(sorted, 0.99),
    highest: sorted.at(-1) ?? Number.NaN,
    missing: produced.length - sorted.length,
  };
}

/** The columns of a table of delays. */
export const DELAY_COLUMNS = ["p50, ms", "p99, ms", "longest, ms", "not started within 10 s"];

/** The rounds of one entry as cells under those columns. */
export function delayCells(runs: readonly Delays[]): readonly Cell[] {
  return [
    figure(runs.map(({ p50 }) => p50)),
    figure(runs.map(({ p99 }) => p99)),
    figure(runs.map(({ highest }) => highest)),
    String(Math.max(...runs.map(({ missing }) => missing))),
  ];
}
