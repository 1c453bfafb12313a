import { groupBy, isClaim } from "../checker/history.js";
import type { Ledger } from "../ledger/read-ledger.js";

/** How long it took until work went on, in milliseconds. */
export interface Recoveries {
  /**
   * From the kill of a worker to the next claim of each job that it held.
   * Only where the job's lease ran out for the first time: from the second on it
   * is a suspect, taken one at a time, and waits on purpose.
   */
  readonly afterKill: readonly number[];
  /** The same from the end of the lease: what was on its way when the worker was killed may have renewed it. */
  readonly afterLease: readonly number[];
  /**
   * For each that came later than 2 s after the end of its lease: how many jobs that nobody had
   * claimed before, that were due later and of no higher priority, were claimed after these 2 s
   * and before it. Where there are none, jobs that went first had all slots that came free.
   */
  readonly overtakings: readonly number[];
  /** From when the restarted server takes connections to the first completion. */
  readonly afterRestart: readonly number[];
}

/** Measures recoveries by the audit trail. */
export function recoveriesOf(ledger: Ledger): Recoveries {
  return { ...afterKills(ledger), afterRestart: afterRestarts(ledger) };
}

/** What a job that a killed worker held may wait after the end of its lease, in milliseconds. */
export const PATIENCE_MS = 2_000;

function afterKills({ audit, fleet }: Ledger): Omit<Recoveries, "afterRestart"> {
  const killedAt = new Map(
    fleet.flatMap((entry) =>
      entry.what === "exit" && entry.signal === "SIGKILL" ? [[entry.who, entry.atMs] as const] : [],
    ),
  );
  const afterKill: number[] = [];
  const afterLease: number[] = [];
  const overtakings: number[] = [];
  const fresh = audit.filter((entry) => isClaim(entry) && entry.old?.version === 0).map(turnOf);
  for (const versions of groupBy(audit, ({ jobId }) => jobId).values()) {
    let holder = "nobody";
    for (const entry of versions) {
      if (!isClaim(entry)) continue;
      const killedMs = killedAt.get(holder) ?? Number.POSITIVE_INFINITY;
      // What was taken over before that was not lost by the kill.
      if (isFirstLoss(entry) && killedMs < entry.atMs) {
        const late = turnOf(entry);
        const sinceMs = Math.max(killedMs, entry.old?.leaseMs ?? 0);
        afterKill.push(entry.atMs - killedMs);
        afterLease.push(entry.atMs - sinceMs);
        if (entry.atMs > sinceMs + PATIENCE_MS)
          overtakings.push(fresh.filter((other) => overtakes(other, late, sinceMs)).length);
      }
      holder = entry.who;
    }
  }
  return { afterKill, afterLease, overtakings };
}

type Entry = Ledger["audit"][number];

/** A job as it stood in line when it was claimed. */
interface Turn {
  readonly atMs: number;
  readonly priority: number;
  readonly dueMs: number;
}

const turnOf = ({ atMs, old }: Entry): Turn => ({
  atMs,
  priority: old?.priority ?? 0,
  dueMs: old?.dueMs ?? 0,
});

const overtakes = (other: Turn, late: Turn, sinceMs: number): boolean =>
  other.atMs > sinceMs + PATIENCE_MS &&
  other.atMs < late.atMs &&
  other.priority >= late.priority &&
  other.dueMs > late.dueMs;

const isFirstLoss = ({ old }: Entry): boolean => old?.status === "running" && old.expired === 0;

function afterRestarts({ audit, facts }: Ledger): number[] {
  const completions = completionsOf(audit);
  return facts.restartedAtMs.flatMap((upMs) => {
    const first = completions.find((atMs) => atMs > upMs);
    return first === undefined ? [] : [first - upMs];
  });
}

/** When jobs became done, in milliseconds since 1970. */
export const completionsOf = (audit: Ledger["audit"]): number[] =>
  audit
    .filter(({ old, new: now }) => old?.status === "running" && (now?.status ?? "done") === "done")
    .map(({ atMs }) => atMs);
