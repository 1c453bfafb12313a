import { figure } from "./benchmark.js";
import { short, table } from "./markdown.js";
import { cellOf, type Outcome } from "./outcomes.js";

const LINES = [
  ["done: 0", "drain", "drizzle-queue, done: 0"],
  ["done: 0, optional SQL", "drain", "drizzle-queue, done: 0, optional SQL"],
  ["rows kept", "drain", "drizzle-queue, rows kept (default)"],
  ["rows kept, optional SQL", "drain", "drizzle-queue, rows kept, optional SQL"],
  ["completed by commit", "commit", "completed by commit, one row written in each"],
] as const;

/** How much of the server's cores the queue is given in the columns of rates. */
const SHARE = 0.6;
const CORES = [2, 8, 32];

/** What docs/scaling.md calculates with, from this run's costs. */
export function capacity(outcomes: readonly Outcome[]): string {
  const rows = LINES.map(([label, name, row]) => {
    const cost = (column: string): number => {
      const cell = cellOf(outcomes, name, row, column);
      return typeof cell === "object" ? figure(cell.runs).median : Number.NaN;
    };
    const claim = cost("server CPU, µs/job");
    const total = claim + bulk(outcomes);
    return [
      label,
      short(claim),
      short(bulk(outcomes)),
      short(cost("node CPU, µs/job")),
      short(cost("WAL, bytes/job")),
      short(cost("transactions per 1,000 jobs")),
      ...CORES.map((cores) => thousands((SHARE * cores * 1e6) / total)),
    ];
  });
  const head = [
    "",
    "S_c, µs",
    "S_e, µs",
    "N, µs",
    "W, bytes",
    "transactions per 1,000 jobs",
    ...CORES.map((cores) => `jobs/s on ${cores} cores`),
  ];
  return `## What a job costs

The figures that [scaling.md](scaling.md) calculates with. S_c: server CPU of claim and settlement. S_e: server CPU of the enqueue, in bulk. N: the worker's CPU.
The last columns are arithmetic, not measurements: ${SHARE * 100} % of the server's cores divided by S_c + S_e.

${table(head, rows, 1)}`;
}

function bulk(outcomes: readonly Outcome[]): number {
  const cell = cellOf(outcomes, "enqueue-alone", "drizzle-queue", "bulk, server CPU µs/job");
  return typeof cell === "object" ? figure(cell.runs).median : Number.NaN;
}

const thousands = (value: number): string =>
  Number.isFinite(value) ? (Math.round(value / 1_000) * 1_000).toLocaleString("en-US") : "–";
