import { type Cell, type Figure, figure, ratio } from "./benchmark.js";
import { cellOf, type Outcome } from "./outcomes.js";

/** A figure that was set as a goal before it was measured. */
export interface Goal {
  readonly what: string;
  readonly unit: string;
  readonly atLeast?: number;
  readonly atMost?: number;
  /** Undefined where the benchmark has not been run. */
  readonly measured: Figure | undefined;
}

const OURS = "drizzle-queue, done: 0";
const EXTRAS = "drizzle-queue, done: 0, optional SQL";
const KEPT = "drizzle-queue, rows kept (default)";
const KEPT_EXTRAS = "drizzle-queue, rows kept, optional SQL";
const TUNED = "graphile-worker, best-tuned";
const BATCH = "pg-boss, batch 500 × 4, burst";

const asFigure = (cell: Cell | undefined): Figure | undefined =>
  typeof cell === "object" ? cell : undefined;

/** Every goal with what came out, from the outcomes that are there. */
export function goalsOf(outcomes: readonly Outcome[]): readonly Goal[] {
  return [
    ...drainGoals(outcomes),
    ...costGoals(outcomes),
    ...enqueueGoals(outcomes),
    ...liveGoals(outcomes),
  ];
}

function drainGoals(outcomes: readonly Outcome[]): readonly Goal[] {
  const rate = (row: string) => cellOf(outcomes, "drain", row, "jobs/s");
  const times = (what: string, row: string, peer: string, atLeast: number): Goal => ({
    what: `drain, ${what}`,
    unit: "×",
    atLeast,
    measured: ratio(rate(row), rate(peer)),
  });
  return [
    times("`done: 0`, against graphile-worker best-tuned", OURS, TUNED, 2),
    times("the same, with the optional SQL", EXTRAS, TUNED, 2),
    times("`done: 0`, against graphile-worker default", OURS, "graphile-worker, default", 15),
    times("rows kept, against graphile-worker best-tuned", KEPT, TUNED, 1.3),
    times("the same, with the optional SQL", KEPT_EXTRAS, TUNED, 1.3),
    times("rows kept, against pg-boss batch", KEPT, BATCH, 2),
    times("the same, with the optional SQL", KEPT_EXTRAS, BATCH, 2),
    times("rows kept, against pg-boss default", KEPT, "pg-boss, default", 30),
    times("rows kept, against BullMQ on PostgreSQL", KEPT, "BullMQ on PostgreSQL", 4),
    times("share of the raw-SQL ceiling, `done: 0`", OURS, "ceiling, done: 0", 0.7),
    times("the same, with the optional SQL", EXTRAS, "ceiling, done: 0, optional SQL", 0.7),
  ];
}

function costGoals(outcomes: readonly Outcome[]): readonly Goal[] {
  const wal = (row: string) => cellOf(outcomes, "drain", row, "WAL, bytes/job");
  const open = (row: string) =>
    ratio(
      cellOf(outcomes, "open-transaction", `${row}, transaction open`, "jobs/s"),
      cellOf(outcomes, "open-transaction", row, "jobs/s"),
    );
  const history = outcomes
    .find(({ name }) => name === "claim-cost")
    ?.result.rows.find(({ label }) => label.includes("running"));
  return [
    {
      what: "WAL per job, `done: 0`, against graphile-worker",
      unit: "×",
      atMost: 0.7,
      measured: ratio(wal(OURS), wal(TUNED)),
    },
    {
      what: "the same, with the optional SQL",
      unit: "×",
      atMost: 0.7,
      measured: ratio(wal(EXTRAS), wal(TUNED)),
    },
    {
      what: "HOT share of claims, no snapshot held, with the optional SQL",
      unit: "%",
      atLeast: 95,
      measured: asFigure(cellOf(outcomes, "drain", EXTRAS, "HOT updates, %")),
    },
    {
      what: "drain with a transaction held open, against without, `done: 0`",
      unit: "×",
      atLeast: 0.9,
      measured: open(OURS),
    },
    { what: "the same, with the optional SQL", unit: "×", atLeast: 0.9, measured: open(EXTRAS) },
    {
      what: `claim cost with ${history?.label ?? "5M finished, 300k future, 10k running"}, against an empty table`,
      unit: "×",
      atMost: 1.3,
      measured: asFigure(history?.cells[1]),
    },
    {
      what: "2 worker processes against 1, handlers of 5 ms",
      unit: "×",
      atLeast: 1.9,
      measured: asFigure(cellOf(outcomes, "processes", OURS, "2 against 1")),
    },
    {
      what: "growth of a worker's heap from the first tenth of 1,000,000 jobs to the end",
      unit: "MiB",
      atMost: 5,
      measured: asFigure(cellOf(outcomes, "memory", OURS, "growth, MiB")),
    },
  ];
}

function enqueueGoals(outcomes: readonly Outcome[]): readonly Goal[] {
  const against = "against Drizzle's insert";
  return [
    {
      what: "one enqueue in a transaction, against Drizzle's own insert of the row",
      unit: "×",
      atMost: 1.2,
      measured: asFigure(cellOf(outcomes, "enqueue", "enqueue", against)),
    },
    {
      what: "the same with a key",
      unit: "×",
      atMost: 1.6,
      measured: asFigure(cellOf(outcomes, "enqueue", "enqueue with a key", against)),
    },
    {
      what: "enqueue from 24 callers, all workers busy, commits/s against no worker",
      unit: "×",
      atLeast: 0.9,
      measured: asFigure(cellOf(outcomes, "notify", "every worker busy", "against no worker")),
    },
  ];
}

function liveGoals(outcomes: readonly Outcome[]): readonly Goal[] {
  const idle = (column: string) =>
    ratio(
      cellOf(outcomes, "latency", KEPT, column),
      cellOf(outcomes, "latency", "graphile-worker, default", column),
    );
  return [
    {
      what: "commit to start at 350 jobs/s, transactions open 5–50 ms, 600,000 dead entries, p99",
      unit: "ms",
      atMost: 150,
      measured: asFigure(cellOf(outcomes, "late-commits", KEPT, "p99, ms")),
    },
    {
      what: "enqueue to start, idle, p50, against graphile-worker",
      unit: "×",
      atMost: 1,
      measured: idle("p50, ms"),
    },
    { what: "the same, p99", unit: "×", atMost: 1, measured: idle("p99, ms") },
    {
      what: "statements of an idle worker, a minute",
      unit: "",
      atMost: 70,
      measured: asFigure(cellOf(outcomes, "idle", KEPT, "statements")),
    },
  ];
}

/** Whether the median is on the right side; undefined where there is none. */
export function isReached({ measured, atLeast, atMost }: Goal): boolean | undefined {
  if (measured === undefined || measured.median === null) return undefined;
  const { median } = figure(measured.runs);
  if (!Number.isFinite(median)) return undefined;
  return (atLeast === undefined || median >= atLeast) && (atMost === undefined || median <= atMost);
}
