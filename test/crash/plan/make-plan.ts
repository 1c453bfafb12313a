import type { ConnectionKind, Fault, FaultAction, FaultPlan, Slot } from "./fault.js";
import type { Level } from "./level.js";
import { createRandom, type Random } from "./random.js";

/**
 * Decides every fault of a run before it starts: the same level and seed give the same plan.
 *
 * The plan is the same, not what comes of it: who holds which job when a fault
 * strikes is the machine's to decide.
 */
export function makePlan(level: Level, seed: number): FaultPlan {
  const random = createRandom(seed);
  const workers = slots("w", level.workers);
  const producers = slots("p", level.producers);
  const actions = [
    ...times(level.kills, () => kill(random, workers, producers)),
    ...times(level.pauses, () => pause(random, level, workers)),
    ...times(level.terms, () => term(random, workers)),
    ...times(level.lateFaults, () => late(random, level, workers)),
    ...times(level.connectionFaults - level.commitFaults - level.lateFaults, () =>
      connectionFault(random, level, [...workers, ...workers, ...producers]),
    ),
    ...times(level.commitFaults, () => commitFault(random, level, [...workers, ...producers])),
    ...times(level.terminations, () => ({
      kind: "terminate" as const,
      sessions: random.integer(2, 12),
    })),
    ...times(level.hostilePhases, () => hostilePhase(random)),
  ];
  const struck = random
    .shuffle(actions)
    .map((action) => ({ action, atMs: random.integer(level.calmMs, level.chaosMs) }));
  const faults = [
    ...struck,
    ...restarts(random, level),
    ...cancels(level, seed),
    ...requeues(level, seed),
    ...lastLosses(level),
  ]
    .sort((a, b) => a.atMs - b.atMs)
    .map(({ action, atMs }, id): Fault => ({ id, atMs, action }));
  return { level: level.name, seed, faults };
}

/** The names of processes `1` to `count`. */
export const slots = (letter: "w" | "p", count: number): Slot[] =>
  times(count, (index) => `${letter}${index + 1}`);

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/** One kill in eight is a producer's: what it was about to be told it then never learns. */
function kill(random: Random, workers: readonly Slot[], producers: readonly Slot[]): FaultAction {
  const slot = random.pick(random.next() < 1 / 8 ? producers : workers);
  return { kind: "kill", slot, downMs: random.integer(50, 1_500) };
}

function pause(random: Random, level: Level, workers: readonly Slot[]): FaultAction {
  const ms = Math.round(level.leaseMs * (0.1 + random.next() * 2.9));
  return { kind: "pause", slot: random.pick(workers), ms };
}

function term(random: Random, workers: readonly Slot[]): FaultAction {
  return {
    kind: "term",
    slot: random.pick(workers),
    times: random.pick([1, 1, 2] as const),
    downMs: random.integer(50, 500),
  };
}

const SUDDEN = ["cut", "cut", "fin", "half-open", "reply-lost", "reply-lost", "torn"] as const;
const CONNECTIONS: readonly ConnectionKind[] = ["main", "main", "renewal", "listen", "app", "any"];

function connectionFault(random: Random, level: Level, all: readonly Slot[]): FaultAction {
  const slot = random.pick(all);
  const of = random.pick(CONNECTIONS);
  const choice = random.next();
  if (choice < 0.6) return { kind: random.pick(SUDDEN), slot, of };
  if (choice < 0.65) return { kind: "refuse", slot, ms: random.integer(200, level.leaseMs) };
  return {
    kind: random.pick(["delay", "swallow"] as const),
    slot,
    of,
    direction: random.pick(["toServer", "toClient", "both"] as const),
    ms: random.integer(100, Math.round(level.leaseMs * 1.5)),
  };
}

/**
 * Long enough that leases run out and others take over. Renewals alone: whoever works on
 * meanwhile comes too late. All statements: what was on its way is carried out too late.
 */
function late(random: Random, { leaseMs }: Level, workers: readonly Slot[]): FaultAction {
  const ms = Math.round(leaseMs * (1.3 + random.next()));
  return { kind: "late", slot: random.pick(workers), of: random.pick(["renewal", "any"]), ms };
}

function commitFault(random: Random, level: Level, all: readonly Slot[]): FaultAction {
  const slot = random.pick(all);
  const kind = random.pick(["commit-unsent", "commit-unanswered", "commit-held"] as const);
  if (kind !== "commit-held") return { kind, slot };
  return { kind, slot, ms: random.integer(100, Math.round(level.leaseMs * 1.5)) };
}

function hostilePhase(random: Random): FaultAction {
  const kind = random.pick(["read-only", "role-settings", "held-snapshot", "crowd"] as const);
  return { kind, ms: random.integer(1_000, 6_000) };
}

/** Drawn by themselves, so that the other faults of a seed are what they were without them. */
function cancels(level: Level, seed: number): { action: FaultAction; atMs: number }[] {
  const random = createRandom(seed ^ 0xca9ce1);
  // Running jobs of most kinds are done before anybody can tell them.
  const aims = ["queued", "running", "unwanted", "unwanted", "unwanted"] as const;
  return times(level.cancels, () => {
    const aim = random.pick(aims);
    const action =
      aim === "unwanted"
        ? ({ kind: "cancel", status: "running", of: "unwanted" } as const)
        : ({ kind: "cancel", status: aim, of: "any" } as const);
    return { action, atMs: random.integer(level.calmMs, Math.round(level.chaosMs * 0.85)) };
  });
}

/** Not in the beginning, when there are few to choose from. */
function requeues(level: Level, seed: number): { action: FaultAction; atMs: number }[] {
  const random = createRandom(seed ^ 0x4e9e0e);
  return times(level.requeues, () => ({
    action: { kind: "requeue" },
    atMs: random.integer(Math.round(level.chaosMs * 0.3), Math.round(level.chaosMs * 0.85)),
  }));
}

/**
 * When all other faults are over, each worker loses outcomes with its main connection. Earlier, a kill
 * would soon mend what it forgot then: another worker would take it up.
 */
function lastLosses(level: Level): { action: FaultAction; atMs: number }[] {
  if (level.connectionFaults === 0) return [];
  return slots("w", level.workers).flatMap((slot) =>
    times(3, (index) => ({
      action: { kind: "settle-unsent" as const, slot, of: "main" as const },
      atMs: level.chaosMs + index * 600,
    })),
  );
}

/** Spread out: a server that is down all the time would hide every other fault. */
function restarts(random: Random, level: Level): { action: FaultAction; atMs: number }[] {
  const share = level.chaosMs / Math.max(1, level.restarts);
  return times(level.restarts, (index) => ({
    action: { kind: "restart" as const, downMs: random.integer(0, 800) },
    atMs: Math.round(share * (index + 0.2 + random.next() * 0.6)),
  }));
}
