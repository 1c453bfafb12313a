import type { Ledger } from "../ledger/read-ledger.js";

type Interval = readonly [fromMs: number, toMs: number];

/**
 * Which share of the time under faults a worker of the fleet could work, from 0 to 1:
 * its process was there and not stopped, and not all that it said was held back.
 * An upper bound: single broken connections, the server's own absence and the start of a process are not counted.
 */
export function availabilityOf(ledger: Ledger): number {
  const { level, startedAtMs, healedAtMs } = ledger.facts;
  const slots = Array.from({ length: level.workers }, (_, index) => `w${index + 1}`);
  const hindered = slots.map((slot) => {
    const intervals = [...absences(ledger, slot), ...silences(ledger, slot)].map(
      ([fromMs, toMs]): Interval => [Math.max(fromMs, startedAtMs), Math.min(toMs, healedAtMs)],
    );
    return lengthOf(intervals);
  });
  const whole = slots.length * (healedAtMs - startedAtMs);
  return 1 - hindered.reduce((sum, ms) => sum + ms, 0) / whole;
}

/** When a worker's process was not there, or stopped. */
function absences({ fleet, facts }: Ledger, slot: string): Interval[] {
  const intervals: Interval[] = [];
  let sinceMs: number | undefined = facts.startedAtMs;
  for (const entry of fleet.filter(({ who }) => who.split(".")[0] === slot)) {
    const change = entry.what === "signal" ? entry.signal : entry.what;
    if (change === "exit" || change === "SIGSTOP") sinceMs ??= entry.atMs;
    if (change !== "spawn" && change !== "SIGCONT") continue;
    intervals.push([sinceMs ?? entry.atMs, entry.atMs]);
    sinceMs = undefined;
  }
  return [...intervals, [sinceMs ?? facts.healedAtMs, facts.healedAtMs]];
}

/** When all that a worker said was held back. */
const silences = ({ facts }: Ledger, slot: string): Interval[] =>
  facts.struck.flatMap(({ action, struckAtMs }) =>
    action.kind === "late" && action.slot === slot && action.of === "any"
      ? [[struckAtMs, struckAtMs + action.ms] as const]
      : [],
  );

/** How long intervals are together, what overlaps counted once. */
function lengthOf(intervals: readonly Interval[]): number {
  let coveredTo = Number.NEGATIVE_INFINITY;
  let length = 0;
  for (const [fromMs, toMs] of intervals.toSorted(([a], [b]) => a - b)) {
    length += Math.max(0, toMs - Math.max(fromMs, coveredTo));
    coveredTo = Math.max(coveredTo, toMs);
  }
  return length;
}
