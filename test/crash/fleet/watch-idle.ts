import { join } from "node:path";
import { setTimeout as pauseFor } from "node:timers/promises";
import type { AttemptEntry } from "../ledger/entries.js";
import { readJournal } from "../ledger/journal.js";
import type { Slot } from "../plan/fault.js";
import type { Asked, Proxy } from "../proxy/proxy.js";
import type { Fleet } from "./fleet.js";

/** What one worker sent while there was nothing to do. */
export interface IdleWorker {
  readonly who: string;
  readonly spanMs: number;
  /** Statements in all, with those of its app. */
  readonly statements: number;
  /** Those of them that speak of the jobs table. */
  readonly onJobs: number;
  /** How many of each, by its label. */
  readonly byLabel: Readonly<Record<string, number>>;
}

/**
 * Within this time workers come to rest: they forget how many jobs there were, and a connection that the
 * faults broke without a word is found out by its ping, or by a statement without an answer.
 */
const REST_MS = 25_000;
/** Whoever looks for jobs for so long, and sends no more than it must, is at rest. */
const CALM_MS = 3_000;

/** How long a worker may take to count what is left in it, on a machine that is busy. */
const COUNT_MS = 10_000;

/**
 * Watches for `idleMs` what the workers send; then each writes down what is left in it.
 *
 * Counted by the proxy, which sees whatever a process sends, whosoever sends it there.
 */
export async function watchIdle(
  fleet: Fleet,
  proxy: Proxy,
  { idleMs, folder }: { readonly idleMs: number; readonly folder: string },
): Promise<IdleWorker[]> {
  await untilCalm(fleet, proxy);
  const before = fleet
    .workers()
    .map((slot) => ({ slot, who: fleet.who(slot), asked: proxy.asked(slot) }));
  const startedMs = performance.now();
  await pauseFor(idleMs);
  const spanMs = performance.now() - startedMs;
  const idle = before.flatMap(({ slot, who, asked }) =>
    // One that has ended meanwhile had a reason, which its exit shows.
    who === undefined || fleet.who(slot) !== who
      ? []
      : [{ slot, worker: { who, spanMs, ...since(asked, proxy.asked(slot)) } }],
  );
  for (const { slot } of idle) fleet.signal(slot, "SIGUSR2");
  const slots = idle.map(({ slot }) => slot);
  await untilCounted(
    folder,
    slots,
    idle.map(({ worker }) => worker.who),
  );
  return idle.map(({ worker }) => worker);
}

/**
 * Waits until no worker polls closely any more, as it does after many jobs or a new LISTEN, and
 * none is silent. Who does not come to rest in time is watched all the same.
 */
async function untilCalm(fleet: Fleet, proxy: Proxy): Promise<void> {
  const isCalm = ({ slot, asked }: { readonly slot: Slot; readonly asked: Asked }): boolean => {
    const { statements, onJobs } = since(asked, proxy.asked(slot));
    return onJobs > 0 && statements <= (2 * CALM_MS) / 1_000;
  };
  const untilMs = performance.now() + REST_MS;
  while (performance.now() < untilMs) {
    const before = fleet.workers().map((slot) => ({ slot, asked: proxy.asked(slot) }));
    await pauseFor(CALM_MS);
    if (before.every(isCalm)) return;
  }
}

function since(before: Asked, now: Asked): Omit<IdleWorker, "who" | "spanMs"> {
  const statements = [...now].map(([label, { count, isOnJobs }]) => ({
    label,
    count: count - (before.get(label)?.count ?? 0),
    isOnJobs,
  }));
  const sum = (list: readonly { readonly count: number }[]): number =>
    list.reduce((total, { count }) => total + count, 0);
  return {
    statements: sum(statements),
    onJobs: sum(statements.filter(({ isOnJobs }) => isOnJobs)),
    byLabel: Object.fromEntries(
      statements.filter(({ count }) => count > 0).map(({ label, count }) => [label, count]),
    ),
  };
}

/** Whoever does not tell in time is found missing by the checker. */
async function untilCounted(
  folder: string,
  slots: readonly Slot[],
  all: readonly string[],
): Promise<void> {
  const untilMs = performance.now() + COUNT_MS;
  const told = (): Set<string> =>
    new Set(
      slots
        .flatMap((slot) => readJournal<AttemptEntry>(join(folder, `attempts-${slot}.jsonl`)))
        .flatMap((entry) => (entry.what === "rest" ? [entry.who] : [])),
    );
  while (performance.now() < untilMs) {
    const names = told();
    if (all.every((who) => names.has(who))) return;
    await pauseFor(200);
  }
}
