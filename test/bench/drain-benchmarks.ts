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
import { ENTRIES } from "./entries.js";

/** One line of a drain table: an entry under a condition. */
interface Line {
  readonly label: string;
  readonly entry: Entry;
  readonly options: DrainOptions;
}

/** Nobody is given longer than this for one drain: the slow are measured by what they got done. */
const CAP_MS = 15_000;

async function measure(bench: Bench, lines: readonly Line[]): Promise<Map<Line, DrainRun[]>> {
  const runs = new Map<Line, DrainRun[]>(lines.map((line) => [line, []]));
  await interleave(lines, bench.rounds, async (line, round) => {
    const seed = await bench.seedOf(line.entry, line.options.jobs);
    const run = await drainOnce(bench.server, line.entry, seed, line.options);
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
  "jobs done",
  "run twice",
];

function cellsOf(runs: readonly DrainRun[]): readonly Cell[] {
  const least = Math.min(...runs.map((run) => run.handled));
  return [
    figure(runs.map((run) => run.jobsPerSecond)),
    figure(runs.map((run) => run.serverCpuUs)),
    figure(runs.map((run) => run.nodeCpuUs)),
    figure(runs.map((run) => run.walBytes)),
    runs.every((run) => run.isComplete) ? "all" : `${least} in ${CAP_MS / 1_000} s`,
    String(Math.max(...runs.map((run) => run.repeated))),
  ];
}

function table(runs: ReadonlyMap<Line, DrainRun[]>, notes: readonly string[]): Result {
  const rows = [...runs].map(([{ label }, of]) => ({ label, cells: cellsOf(of) }));
  return { columns: COLUMNS, rows, notes };
}

const linesOf = (entries: readonly Entry[], options: DrainOptions): readonly Line[] =>
  entries.map((entry) => ({ label: entry.name, entry, options }));

const isCeiling = ({ name }: Entry): boolean => name.startsWith("ceiling");

/** How fast a full queue is emptied by handlers that do nothing. */
export const drainNoOp: Benchmark = {
  name: "drain",
  title: "Drain, handlers that do nothing",
  async run(bench) {
    const { jobs, concurrency } = bench;
    const options = { jobs, concurrency, handlerMs: 0, capMs: CAP_MS };
    const runs = await measure(bench, linesOf(ENTRIES, options));
    return table(runs, [
      `${jobs} jobs, one process, concurrency ${concurrency}; a copy of the same filled database for each run.`,
      "From the first job's start to the last one's settlement. Server CPU: all of the server's processes.",
      "ceiling: our statements in a bare loop, one after the other, without the library.",
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
    const options = { jobs, concurrency, handlerMs: 5, capMs: CAP_MS };
    const entries = ENTRIES.filter((entry) => !isCeiling(entry));
    const runs = await measure(bench, linesOf(entries, options));
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
    const { jobs, concurrency } = bench;
    const entries = ENTRIES.filter(
      ({ name, module }) => module !== "peers/bullmq.js" && !/default|ceiling/.test(name),
    );
    const lines = entries.flatMap((entry) =>
      [false, true].map((holdsSnapshot) => ({
        label: `${entry.name}${holdsSnapshot ? ", transaction open" : ""}`,
        entry,
        options: { jobs, concurrency, handlerMs: 0, capMs: CAP_MS, holdsSnapshot },
      })),
    );
    return table(await measure(bench, lines), [
      "One other session has a repeatable-read transaction open from before the drain until after it.",
    ]);
  },
};
