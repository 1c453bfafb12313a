import type { Produced, ProduceTask } from "./bench-process.js";
import { type Bench, type Benchmark, interleave, type Result } from "./benchmark.js";
import type { Entry } from "./contender.js";
import {
  DELAY_COLUMNS,
  type Delays,
  delayCells,
  delays,
  sleep,
  untilHandled,
  withLive,
} from "./live.js";

interface Load extends ProduceTask {
  readonly handlerMs: number;
  /** Which moment the wait is counted from. */
  readonly since: keyof Produced;
  /** The entries that can carry it. */
  readonly entries: RegExp;
  readonly notes: readonly string[];
}

async function measure(bench: Bench, entry: Entry, load: Load): Promise<Delays> {
  const { handlerMs, since, entries: _, notes: __, ...task } = load;
  return withLive(bench, entry, handlerMs, async ({ worker, producer }) => {
    // Whatever is done once is not what is measured.
    await sleep(1_500);
    const produced = await producer.call("produce", task);
    await untilHandled(worker, task.count, (task.delayMs ?? 0) + 10_000);
    return delays(produced, await worker.call("startedAt"), since);
  });
}

function latencyBenchmark(name: string, title: string, load: Load): Benchmark {
  return {
    name,
    title,
    async run(bench): Promise<Result> {
      const entries = bench.entries(load.entries);
      const runs = new Map<Entry, Delays[]>(entries.map((entry) => [entry, []]));
      await interleave(entries, bench.rounds, async (entry, round) => {
        const measured = await measure(bench, entry, load);
        runs.get(entry)?.push(measured);
        const { p50, p99 } = measured;
        bench.progress(
          `round ${round + 1}/${bench.rounds}  ${entry.name}: p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`,
        );
      });
      const rows = [...runs].map(([{ name: label }, of]) => ({ label, cells: delayCells(of) }));
      return { columns: DELAY_COLUMNS, rows, notes: load.notes };
    },
  };
}

const COMMON =
  "One process enqueues each job by itself, at random moments; another one is the worker.";

/** How soon a job starts on a worker that has nothing to do. */
export const latencyIdle = latencyBenchmark("latency", "Enqueue to start, idle", {
  count: 60,
  perSecond: 8,
  handlerMs: 0,
  since: "calledAt",
  entries: /default|^BullMQ/,
  notes: [
    COMMON,
    "60 jobs a round at 8 a second, so p99 is nearly the longest; handlers that do nothing. From the call to enqueue on.",
  ],
});

/** The same while there is a steady stream of work. */
export const latencyLoaded = latencyBenchmark("latency-loaded", "Enqueue to start, under load", {
  count: 2_000,
  perSecond: 400,
  handlerMs: 5,
  since: "calledAt",
  entries: /kept \(default\)|worker, default|^pg-boss, batch|^BullMQ/,
  notes: [
    COMMON,
    "2,000 jobs at 400 a second, about half of what the slowest shown can carry; handlers of 5 ms. From the call to enqueue on. pg-boss by default runs 12 jobs a second and is left out.",
  ],
});

/** How near to its time a scheduled job starts. */
export const punctuality = latencyBenchmark("punctuality", "Scheduled jobs: due to start", {
  count: 80,
  perSecond: 20,
  delayMs: 3_000,
  handlerMs: 0,
  since: "dueAt",
  entries: /default|^BullMQ/,
  notes: [
    COMMON,
    "80 jobs, each due 3 s after its enqueue, on an otherwise idle worker. From the moment it was due on; a negative figure: too early, by what a date in milliseconds cuts off.",
  ],
});

/** How soon jobs start whose transactions commit long after the enqueue, past what nobody can clean. */
export const lateCommits: Benchmark = {
  name: "late-commits",
  title: "Commit to start, transactions open 5–50 ms, 600,000 dead entries under a held snapshot",
  async run(bench): Promise<Result> {
    const [entry] = bench.entries(/kept \(default\)/);
    if (entry === undefined) throw new Error("There is no entry with defaults.");
    const runs: Delays[] = [];
    await interleave([entry], bench.rounds, async (_, round) => {
      const measured = await measureLateCommits(bench, entry);
      runs.push(measured);
      bench.progress(`round ${round + 1}/${bench.rounds}: p99 ${measured.p99.toFixed(1)} ms`);
    });
    return {
      columns: DELAY_COLUMNS,
      rows: [{ label: entry.name, cells: delayCells(runs) }],
      notes: [
        "3,500 jobs at 350 a second. A negative figure: started before the producer had heard of its commit.",
        "The jobs begin 5 s after the rows died. The first sweep over them is longer than any before, and holds up claims once, for as long as it takes: 0.3 to 0.5 s here.",
      ],
    };
  },
};

function measureLateCommits(bench: Bench, entry: Entry): Promise<Delays> {
  return withLive(bench, entry, 1, async ({ worker, producer, database }) => {
    const { server } = bench;
    const other = await server.connect(database);
    await server.query(database, DEAD_ROWS);
    await other.query("begin isolation level repeatable read");
    await other.query("select count(*) from queue_jobs");
    await server.query(database, "delete from queue_jobs where name = 'dead'");
    await sleep(SETTLED_MS);
    const load = { count: 3_500, perSecond: 350, openMs: 50 };
    const produced = await producer.call("produce", load);
    await untilHandled(worker, load.count, 10_000);
    const found = delays(produced, await worker.call("startedAt"), "committedAt");
    await other.end();
    return found;
  });
}

/** A worker polls once a second: by then it has swept over the dead rows, and knows how long that takes. */
const SETTLED_MS = 5_000;

/** Jobs of a name that nobody serves, which then are deleted while a snapshot still sees them. */
const DEAD_ROWS = `
  insert into queue_jobs (queue, name, payload, available_at)
  select 'default', 'dead', '{}', now() - interval '1 hour' + number * interval '1 millisecond'
  from generate_series(1, 600000) as number`;
