import { groupBy } from "../checker/history.js";
import type { Verdict } from "../checker/verdict.js";
import { NETWORK_KINDS } from "../fleet/network-faults.js";
import type { Ledger } from "../ledger/read-ledger.js";
import type { FaultPlan } from "../plan/fault.js";
import { availabilityOf } from "./availability.js";
import { PATIENCE_MS, recoveriesOf } from "./recoveries.js";
import { describeThroughput } from "./throughput.js";

/** So many violations of one invariant are shown; their number tells the rest. */
const SHOWN = 5;

/** Says of each invariant how much was looked at and what was found. */
export function describeVerdicts(verdicts: readonly Verdict[]): string {
  return verdicts
    .map(({ id, claim, checked, violations }) => {
      const mark = violations.length === 0 ? "ok " : "RED";
      const shown = violations.slice(0, SHOWN).map((violation) => `\n        ${violation}`);
      const count = `${violations.length} of ${checked}`;
      return `  ${mark} ${id.padEnd(4)} ${count.padStart(14)}  ${claim}${shown.join("")}`;
    })
    .join("\n");
}

/** The whole report of a run. */
export function describeRun(ledger: Ledger, plan: FaultPlan, verdicts: readonly Verdict[]): string {
  const { facts, audit, attempts, effects } = ledger;
  const jobs = audit.filter(({ op }) => op === "INSERT").length;
  const starts = attempts.filter(({ what }) => what === "start").length;
  const chaosMs = facts.healedAtMs - facts.startedAtMs;
  const quietMs = (facts.drainedAtMs ?? facts.healedAtMs) - facts.healedAtMs;
  return [
    `level ${facts.level.name}, seed ${facts.seed}`,
    `jobs ${jobs}, attempts started ${starts}, effects committed ${effects.length}`,
    `faults ${(chaosMs / 1_000).toFixed(1)} s, then at rest after ${(quietMs / 1_000).toFixed(1)} s`,
    describeFaults(ledger, plan),
    describeRecoveries(ledger),
    describeThroughput(ledger),
    "violations of things looked at:",
    describeVerdicts(verdicts),
  ].join("\n");
}

function describeFaults({ facts, attempts }: Ledger, plan: FaultPlan): string {
  const planned = groupBy(plan.faults, ({ action }) => action.kind);
  const struck = groupBy(facts.struck, ({ action }) => action.kind);
  const lines = [...planned.keys()].sort().map((kind) => {
    const count = struck.get(kind)?.length ?? 0;
    return `${kind} ${count}/${planned.get(kind)?.length}`;
  });
  const connection = NETWORK_KINDS.reduce((sum, kind) => sum + (struck.get(kind)?.length ?? 0), 0);
  const poison = attempts.filter(
    (entry) => entry.what === "start" && entry.kind === "poison",
  ).length;
  return `faults that struck, of those planned: ${lines.join(", ")}\n  (${connection} of them on connections; poison jobs killed ${poison} workers besides)`;
}

function describeRecoveries(ledger: Ledger): string {
  const { afterKill, afterLease, overtakings, afterRestart } = recoveriesOf(ledger);
  return [
    `workers could work for ${percent(availabilityOf(ledger))} of the time under faults`,
    `recovery of a killed worker's jobs, suspects aside: ${percentiles(afterKill)} (bound ${ledger.facts.level.leaseMs + PATIENCE_MS} ms)`,
    `  from the end of the lease: ${percentiles(afterLease)} (bound ${PATIENCE_MS} ms)`,
    `  jobs that overtook a late one: ${percentiles(overtakings, "jobs")}`,
    `first completion after the server's restart: ${percentiles(afterRestart)}`,
  ].join("\n");
}

/** A share as it is read. */
export const percent = (share: number): string => `${Math.round(share * 100)} %`;

/** Describes measured durations, or what else was counted. */
export function percentiles(values: readonly number[], unit = "ms"): string {
  if (values.length === 0) return "nothing to measure";
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
  return `p50 ${at(0.5)} ${unit}, p99 ${at(0.99)} ${unit}, of ${sorted.length}`;
}
