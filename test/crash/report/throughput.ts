import type { Ledger } from "../ledger/read-ledger.js";
import { completionsOf } from "./recoveries.js";

/** Jobs done a second, without faults and with them. */
export interface Throughput {
  readonly calm: number;
  readonly faulty: number;
}

/** So long after the start, and after the first fault, it is not measured: until all are at it. */
const SETTLING_MS = 8_000;

/** Compares the calm part of a run with the rest of it; undefined where a run has no calm part to speak of. */
export function throughputOf({ audit, facts }: Ledger): Throughput | undefined {
  const { level, startedAtMs } = facts;
  if (level.calmMs <= SETTLING_MS) return undefined;
  const completions = completionsOf(audit);
  const rate = (fromMs: number, toMs: number): number => {
    const done = completions.filter(
      (atMs) => atMs >= startedAtMs + fromMs && atMs < startedAtMs + toMs,
    );
    return (done.length * 1_000) / (toMs - fromMs);
  };
  return {
    calm: rate(SETTLING_MS, level.calmMs),
    faulty: rate(level.calmMs + SETTLING_MS / 2, level.chaosMs),
  };
}

/** Says it in a line. */
export function describeThroughput(ledger: Ledger): string {
  const throughput = throughputOf(ledger);
  if (throughput === undefined) return "throughput is measured by --level throughput";
  const { calm, faulty } = throughput;
  const share = Math.round((faulty / calm) * 100);
  return `jobs done a second: ${calm.toFixed(0)} calm, ${faulty.toFixed(0)} under faults, ${share} % of it`;
}
