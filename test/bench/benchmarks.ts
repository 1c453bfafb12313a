import type { Benchmark } from "./benchmark.js";
import { claimCost } from "./claim-cost-benchmark.js";
import { commits, notifyCost } from "./commit-benchmarks.js";
import { drainBusy, drainNoOp, openTransaction } from "./drain-benchmarks.js";
import { enqueueAlone, enqueueInTransaction } from "./enqueue-benchmarks.js";
import { idle } from "./idle-benchmark.js";
import { lateCommits, latencyIdle, latencyLoaded, punctuality } from "./latency-benchmarks.js";
import { memory, memoryOfPeers } from "./memory-benchmark.js";
import { processes } from "./processes-benchmark.js";
import { soakOurs, soakPeers } from "./soak-benchmark.js";

/** How much of a benchmark goes into the report. */
export interface Share {
  readonly jobs: number;
  readonly rounds: number;
  /** About how long that takes on two cores. */
  readonly minutes: number;
}

/** A benchmark, and its share of the report: none for what is measured on request. */
export interface Planned {
  readonly benchmark: Benchmark;
  readonly share?: Share;
}

const plan = (benchmark: Benchmark, jobs: number, rounds: number, minutes: number): Planned => ({
  benchmark,
  share: { jobs, rounds, minutes },
});

/** All of them, in the report's order. What has a share takes about half an hour in all. */
export const BENCHMARKS: readonly Planned[] = [
  plan(drainNoOp, 100_000, 3, 5),
  plan(drainBusy, 10_000, 2, 2),
  plan(openTransaction, 40_000, 2, 1.5),
  plan(enqueueInTransaction, 0, 2, 0.6),
  plan(enqueueAlone, 30_000, 2, 1.5),
  plan(latencyIdle, 0, 2, 1.6),
  plan(latencyLoaded, 0, 2, 1.5),
  plan(punctuality, 0, 2, 1.5),
  plan(lateCommits, 0, 2, 1),
  plan(idle, 0, 1, 1.5),
  plan(processes, 10_000, 2, 1.2),
  plan(claimCost, 100_000, 2, 2.2),
  plan(commits, 10_000, 3, 0.6),
  plan(notifyCost, 0, 2, 0.8),
  plan(memory, 100_000, 1, 2.5),
  plan(soakOurs, 0, 1, 5.2),
  { benchmark: memoryOfPeers },
  { benchmark: soakPeers },
];
