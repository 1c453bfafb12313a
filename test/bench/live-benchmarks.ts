import type { Produced } from "./bench-process.js";
import {
  type Bench,
  type Benchmark,
  type Cell,
  figure,
  interleave,
  percentile,
  type Result,
} from "./benchmark.js";
import { type Child, startChild } from "./child.js";
import type { Entry } from "./contender.js";
import { ENTRIES } from "./entries.js";
import { between } from "./server.js";

/** One entry for each library, as it comes and as it is tuned best. */
const LIVE = ENTRIES.filter(({ name }) => !/ceiling|optional SQL|done: 0/.test(name));

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A fresh database with one worker process and one that enqueues. */
async function withLive<T>(
  bench: Bench,
  entry: Entry,
  handlerMs: number,
  run: (worker: Child, producer: Child, database: string) => Promise<T>,
): Promise<T> {
  const database = "live";
  await bench.server.drop(database);
  await bench.server.create(database);
  // For sessions that begin from now on, and only read by the benchmark that counts statements.
  await bench.server.query(database, "create extension pg_stat_statements");
  await bench.server.query(
    database,
    `alter database ${database} set pg_stat_statements.track = 'top'`,
  );
  const url = bench.server.urlOf(database);
  const { concurrency } = bench;
  const { settings } = entry;
  const producer = await startChild(entry, { url, concurrency, settings });
  await producer.call("install");
  const worker = await startChild(entry, { url, concurrency, settings });
  try {
    await worker.call("work", { handlerMs });
    return await run(worker, producer, database);
  } finally {
    await producer.kill();
    await worker.kill();
    await bench.server.drop(database);
  }
}

/** Waits until the worker has started so many, or until it has clearly lost some. */
async function untilHandled(worker: Child, count: number, withinMs: number): Promise<void> {
  const untilMs = performance.now() + withinMs;
  while ((await worker.call("handled")) < count && performance.now() < untilMs) await sleep(20);
}

interface Delays {
  readonly p50: number;
  readonly p99: number;
  readonly missing: number;
}

/** From the call to enqueue, or from its commit, to the start of the handler; in milliseconds. */
function delays(
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
    missing: produced.length - sorted.length,
  };
}

function latencyBenchmark(
  name: string,
  title: string,
  load: { readonly count: number; readonly perSecond: number; readonly handlerMs: number },
): Benchmark {
  return {
    name,
    title,
    async run(bench): Promise<Result> {
      const runs = new Map<Entry, Delays[]>(LIVE.map((entry) => [entry, []]));
      await interleave(LIVE, bench.rounds, async (entry, round) => {
        const measured = await withLive(bench, entry, load.handlerMs, async (worker, producer) => {
          // Whatever is done once is not what is measured.
          await sleep(2_500);
          const produced = await producer.call("produce", load);
          await untilHandled(worker, load.count, 10_000);
          return delays(produced, await worker.call("startedAt"), "calledAt");
        });
        runs.get(entry)?.push(measured);
        bench.progress(
          `round ${round + 1}  ${entry.name}: p50 ${measured.p50.toFixed(1)} ms, p99 ${measured.p99.toFixed(1)} ms`,
        );
      });
      const rows = [...runs].map(([entry, of]) => ({
        label: entry.name,
        cells: [
          figure(of.map(({ p50 }) => p50)),
          figure(of.map(({ p99 }) => p99)),
          String(Math.max(...of.map(({ missing }) => missing))),
        ] satisfies Cell[],
      }));
      return {
        columns: ["p50, ms", "p99, ms", "not started within 10 s"],
        rows,
        notes: [
          `${load.count} jobs at random moments, ${load.perSecond} a second; handlers of ${load.handlerMs} ms; from the call to enqueue in one process to the start in another.`,
        ],
      };
    },
  };
}

/** How soon a job starts on a worker that has nothing to do. */
export const latencyIdle = latencyBenchmark("latency", "Enqueue to start, idle", {
  count: 100,
  perSecond: 8,
  handlerMs: 0,
});

/** The same while there is a steady stream of work. */
export const latencyLoaded = latencyBenchmark("latency-loaded", "Enqueue to start, under load", {
  count: 3_000,
  perSecond: 400,
  handlerMs: 5,
});

/** How soon jobs start whose transactions commit long after the enqueue, past what nobody can clean. */
export const lateCommits: Benchmark = {
  name: "late-commits",
  title: "Commit to start, transactions open 5–50 ms, 600,000 dead entries under a held snapshot",
  async run(bench): Promise<Result> {
    const entry = ENTRIES.find(({ name }) => name.includes("default"));
    if (entry === undefined) throw new Error("There is no entry with defaults.");
    const runs: Delays[] = [];
    await interleave([entry], bench.rounds, async (_, round) => {
      const measured = await withLive(bench, entry, 1, async (worker, producer, database) => {
        const other = await bench.server.connect(database);
        await bench.server.query(database, DEAD_ROWS);
        await other.query("begin isolation level repeatable read");
        await other.query("select count(*) from queue_jobs");
        await bench.server.query(database, "delete from queue_jobs where name = 'dead'");
        const load = { count: 3_500, perSecond: 350, openMs: 50 };
        const produced = await producer.call("produce", load);
        await untilHandled(worker, load.count, 10_000);
        const found = delays(produced, await worker.call("startedAt"), "committedAt");
        await other.end();
        return found;
      });
      runs.push(measured);
      bench.progress(`round ${round + 1}: p99 ${measured.p99.toFixed(1)} ms`);
    });
    const cells = [
      figure(runs.map(({ p50 }) => p50)),
      figure(runs.map(({ p99 }) => p99)),
      String(Math.max(...runs.map(({ missing }) => missing))),
    ];
    return {
      columns: ["p50, ms", "p99, ms", "not started within 10 s"],
      rows: [{ label: entry.name, cells }],
      notes: [
        "3,500 jobs at 350 a second. A negative figure: started before the producer had heard of its commit.",
      ],
    };
  },
};

/** Jobs of a name that nobody serves, which then are deleted while a snapshot still sees them. */
const DEAD_ROWS = `
  insert into queue_jobs (queue, name, payload, available_at)
  select 'default', 'dead', '{}', now() - interval '1 hour' + number * interval '1 millisecond'
  from generate_series(1, 600000) as number`;

/** How long an idle worker is watched. */
const WATCH_MS = 30_000;

/** What a worker costs that has nothing to do. */
export const idle: Benchmark = {
  name: "idle",
  title: "An idle worker, per minute",
  async run(bench): Promise<Result> {
    const rows: Result["rows"][number][] = [];
    for (const entry of LIVE) {
      const cells = await withLive(bench, entry, 0, (worker, _, database) =>
        watchIdle(bench, worker, database),
      );
      rows.push({ label: entry.name, cells });
      bench.progress(`${entry.name}: watched for ${WATCH_MS / 1_000} s`);
    }
    return {
      columns: ["statements", "transactions", "server CPU, ms", "node CPU, ms"],
      rows,
      notes: [
        `Watched for ${WATCH_MS / 1_000} s after 10 s of quiet, counted by pg_stat_statements; server CPU includes the server's own idling.`,
      ],
    };
  },
};

async function watchIdle({ server }: Bench, worker: Child, database: string): Promise<Cell[]> {
  await sleep(10_000);
  const watcher = await server.connect(database);
  // What the watcher itself asks does not count.
  await watcher.query("set pg_stat_statements.track = 'none'");
  const read = async () => ({
    ...(await watcher.query(COUNTS)).rows[0],
    cost: await server.cost(),
    node: (await worker.call("usage")).cpuMs,
  });
  const before = await read();
  await sleep(WATCH_MS);
  const after = await read();
  await watcher.end();
  const perMinute = (value: number): Cell => figure([(value * 60_000) / WATCH_MS]);
  return [
    perMinute(after.calls - before.calls),
    // The watcher's own reading is one of them.
    perMinute(after.commits - before.commits - 1),
    perMinute(between(before.cost, after.cost).cpuMs),
    perMinute(after.node - before.node),
  ];
}

const COUNTS = `
  select (select coalesce(sum(calls), 0)::float8 from pg_stat_statements as statement
      join pg_database as own on own.oid = statement.dbid where own.datname = current_database()) as calls,
    (select (xact_commit + xact_rollback)::float8 from pg_stat_database where datname = current_database()) as commits`;
