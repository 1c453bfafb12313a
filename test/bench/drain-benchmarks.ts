import {
  type Bench,
  type Benchmark,
  type Cell,
  figure,
  interleave,
  type Result,
} from "./benchmark.js";
import type { Entry } from "./contender.js";
import { type DrainOptions, type DrainRun, drainOnce } from "./drain.js";

/** One line of a drain table: an entry under a condition. */
interface Line {
  readonly label: string;
  readonly entry: Entry;
  readonly options: DrainOptions;
}

/** Nobody is given longer than this for one drain: the slow are measured by what they got done. */
const CAP_MS = 20_000;
const CAP_OF_SLOW_MS = 4_000;

const capOf = ({ isSlow }: Entry): number => (isSlow === true ? CAP_OF_SLOW_MS : CAP_MS);

async function measure(bench: Bench, lines: readonly Line[]): Promise<Map<Line, DrainRun[]>> {
  const runs = new Map<Line, DrainRun[]>(lines.map((line) => [line, []]));
  await interleave(lines, bench.rounds, async (line, round) => {
    const run = await drainOnce(bench, line.entry, line.options);
    runs.get(line)?.push(run);
    const rate = Math.round(run.jobsPerSecond).toLocaleString("en-US");
    bench.progress(`round ${round + 1}/${bench.rounds}  ${line.label}: ${rate} jobs/s`);
  });
  return runs;
}

const COLUMNS = [
  "jobs/s",
  "server CPU, µs/job",
  "node CPU, µs/job",
  "WAL, bytes/job",
  "HOT updates, %",
  "transactions per 1,000 jobs",
  "jobs done",
  "run twice",
];

function cellsOf({ options: { capMs } }: Line, runs: readonly DrainRun[]): readonly Cell[] {
  const least = Math.min(...runs.map((run) => run.handled));
  return [
    figure(runs.map((run) => run.jobsPerSecond)),
    figure(runs.map((run) => run.serverCpuUs)),
    figure(runs.map((run) => run.nodeCpuUs)),
    figure(runs.map((run) => run.walBytes)),
    figure(runs.map((run) => run.hotPercent)),
    figure(runs.map((run) => run.transactions)),
    runs.every((run) => run.isComplete) ? "all" : `${least} in ${capMs / 1_000} s`,
    String(Math.max(...runs.map((run) => run.repeated))),
  ];
}

function table(runs: ReadonlyMap<Line, DrainRun[]>, notes: readonly string[]): Result {
  const rows = [...runs].map(([line, of]) => ({ label: line.label, cells: cellsOf(line, of) }));
  return { columns: COLUMNS, rows, notes };
}

function lineOf(entry: Entry, jobs: number, handlerMs: number, holdsSnapshot = false): Line {
  const label = `${entry.name}${holdsSnapshot ? ", transaction open" : ""}`;
  return { label, entry, options: { jobs, handlerMs, capMs: capOf(entry), holdsSnapshot } };
}

/** How fast a full queue is emptied by handlers that do nothing. */
export const drainNoOp: Benchmark = {
  name: "drain",
  title: "Drain, handlers that do nothing",
  async run(bench) {
    const { jobs, concurrency } = bench;
    const lines = bench.entries().map((entry) => lineOf(entry, jobs, 0));
    const runs = await measure(bench, lines);
    return table(runs, [
      `${jobs} jobs, one process, concurrency ${concurrency}; a copy of the same filled database for each run.`,
      "From the end of the warm-up (another tenth of the jobs, 5,000 at most; a second for those who take longer) to the last job's settlement.",
      "Server CPU: all of the server's processes. HOT updates: of the table that is updated most, the jobs table. Redis: its append-only file in place of WAL.",
      "ceiling: the library's own statements in a bare loop, one after the other, without the library: nothing is renewed, checked, validated or told.",
      "With rows kept, a completion enters the index of finished jobs and cannot be HOT; the HOT share of claims and renewals alone is that of `done: 0`.",
    ]);
  },
};

/** The same with handlers that take some time: what is measured is whether slots are kept full. */
export const drainBusy: Benchmark = {
  name: "drain-5ms",
  title: "Drain, handlers of 5 ms",
  async run(bench) {
    const jobs = Math.min(bench.jobs, 20_000);
    const { concurrency } = bench;
    const entries = bench.entries(/^(?!ceiling)/);
    const runs = await measure(
      bench,
      entries.map((entry) => lineOf(entry, jobs, 5)),
    );
    const most = (concurrency / 5) * 1_000;
    return table(runs, [
      `${jobs} jobs, concurrency ${concurrency}: more than ${most} jobs/s cannot be, and setTimeout takes nearer to 6 ms.`,
    ]);
  },
};

/** A drain while some transaction holds a snapshot, so that nothing dead can be cleaned. */
export const openTransaction: Benchmark = {
  name: "open-transaction",
  title: "Drain while a transaction stays open",
  async run(bench) {
    const { jobs } = bench;
    const entries = bench.entries(
      /^drizzle-queue, done: 0|^drizzle-queue.*kept \(default\)$|tuned|batch/,
    );
    const lines = entries.flatMap((entry) =>
      [false, true].map((isHeld) => lineOf(entry, jobs, 0, isHeld)),
    );
    return table(await measure(bench, lines), [
      `${jobs} jobs, handlers that do nothing, concurrency ${bench.concurrency}.`,
      "One other session has a repeatable-read transaction open from before the drain until after it.",
    ]);
  },
};
