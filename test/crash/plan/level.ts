/** How big a run is. The counts of faults are those of the goals that docs/crash-report.md is measured against. */
export interface Level {
  readonly name: "T0" | "T1" | "T2" | "throughput" | "point";
  readonly jobs: number;
  readonly workers: number;
  readonly producers: number;
  readonly concurrency: number;
  readonly leaseMs: number;
  /** How long jobs are enqueued and faults committed. */
  readonly chaosMs: number;
  /** How much of that passes without faults first. */
  readonly calmMs: number;
  /** How long what is left may take afterwards. */
  readonly quietMs: number;
  readonly kills: number;
  readonly pauses: number;
  readonly terms: number;
  readonly connectionFaults: number;
  /** How many of these concern a COMMIT. */
  readonly commitFaults: number;
  /** How many of these make a worker's statements arrive when its leases have run out. */
  readonly lateFaults: number;
  readonly restarts: number;
  readonly terminations: number;
  readonly hostilePhases: number;
  /** How many jobs an operator asks to end. */
  readonly cancels: number;
  /** How many of those that failed or were cancelled he queues again. */
  readonly requeues: number;
  /**
   * How many jobs there are besides that run long enough for that. They go before all others:
   * too many of them would fill every slot, since each kill makes them begin anew.
   */
  readonly unwanted: number;
  /**
   * How many jobs several workers contend for. Each keeps all that a worker says back for
   * seconds: one in a second, and most of the fleet is dumb all the time.
   */
  readonly contested: number;
  /** How long the fleet is watched once nothing is left to do. */
  readonly idleMs: number;
}

/** On each commit: a minute at most. */
const T0: Level = {
  name: "T0",
  jobs: 2_000,
  workers: 4,
  producers: 3,
  concurrency: 8,
  leaseMs: 3_000,
  chaosMs: 18_000,
  calmMs: 1_000,
  quietMs: 120_000,
  kills: 20,
  pauses: 10,
  terms: 4,
  connectionFaults: 60,
  commitFaults: 18,
  lateFaults: 9,
  restarts: 2,
  terminations: 2,
  hostilePhases: 1,
  cancels: 50,
  requeues: 12,
  unwanted: 30,
  contested: 10,
  idleMs: 3_000,
};

/** On each push: eight minutes at most. */
const T1: Level = {
  name: "T1",
  jobs: 20_000,
  workers: 6,
  producers: 3,
  concurrency: 8,
  leaseMs: 5_000,
  chaosMs: 300_000,
  calmMs: 1_000,
  quietMs: 300_000,
  kills: 200,
  pauses: 100,
  terms: 20,
  connectionFaults: 1_000,
  commitFaults: 100,
  lateFaults: 40,
  restarts: 10,
  terminations: 10,
  hostilePhases: 4,
  cancels: 400,
  requeues: 100,
  unwanted: 100,
  contested: 24,
  idleMs: 10_000,
};

/** Before a release. */
const T2: Level = {
  ...T1,
  name: "T2",
  jobs: 100_000,
  workers: 8,
  chaosMs: 1_800_000,
  quietMs: 600_000,
  kills: 1_000,
  pauses: 400,
  terms: 60,
  connectionFaults: 5_000,
  commitFaults: 500,
  lateFaults: 200,
  restarts: 40,
  terminations: 40,
  hostilePhases: 20,
  cancels: 2_000,
  requeues: 500,
  unwanted: 500,
  contested: 100,
  idleMs: 60_000,
};

/** How much is done with a kill and five connection faults a second, against how much without, by workers that never run out of jobs. */
const THROUGHPUT: Level = {
  ...T1,
  name: "throughput",
  jobs: 12_000,
  workers: 8,
  chaosMs: 50_000,
  calmMs: 20_000,
  quietMs: 180_000,
  kills: 30,
  pauses: 0,
  terms: 0,
  connectionFaults: 150,
  commitFaults: 15,
  lateFaults: 0,
  restarts: 0,
  terminations: 0,
  hostilePhases: 0,
  cancels: 0,
  requeues: 0,
  unwanted: 0,
  contested: 0,
  idleMs: 6_000,
};

/**
 * For one fault at one statement: one job of each kind, and a lease that is short,
 * so that what the fault has left behind is soon taken up again.
 */
export const POINT: Level = {
  ...T0,
  name: "point",
  jobs: 0,
  unwanted: 0,
  contested: 0,
  workers: 1,
  producers: 1,
  leaseMs: 1_000,
  quietMs: 60_000,
};

/** The levels by name. */
export const LEVELS: Readonly<Record<string, Level>> = { T0, T1, T2, throughput: THROUGHPUT };
