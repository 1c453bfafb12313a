import type { ScheduleTurns } from "../queries/schedule-turns.js";
import type { PgTransaction } from "../queries/transaction.js";
import { type BoundedTransactionOptions, inBoundedTransaction } from "./bounded-transaction.js";
import type { CheckedSchedule } from "./schedule-options.js";

/** An occurrence, and how many before it nobody took. */
export interface DueOccurrence {
  readonly dueMs: number;
  readonly missed: number;
}

/** What became of a turn that was taken. */
export type TurnEnd = DueOccurrence &
  (
    | { readonly kind: "enqueued"; readonly jobId: number; readonly created: boolean }
    | { readonly kind: "skipped"; readonly reason: "overlap" | "late" }
  );

/** Enqueues the job of an occurrence. */
export type EnqueueOccurrence = (
  tx: PgTransaction,
  schedule: CheckedSchedule,
  dueMs: number,
) => Promise<{ readonly id: number; readonly created: boolean }>;

export interface TurnOptions extends BoundedTransactionOptions {
  readonly turns: ScheduleTurns;
  readonly enqueue: EnqueueOccurrence;
}

/**
 * Enqueues or skips the latest occurrence that is due, and moves its schedule on, in one transaction.
 *
 * Which one is the latest, and whether it is too late for it, is decided once the row is locked: the pool
 * may have kept the turn waiting.
 *
 * @param lastDueMs Where the schedule's row stood.
 * @returns Undefined where somebody else holds or has moved the row, its schedule is paused, or nothing is due.
 * @throws What the app's payload function or `enqueue` throws, and errors of the database; then the turn can be taken again.
 */
export async function takeTurn(
  options: TurnOptions,
  schedule: CheckedSchedule,
  lastDueMs: number,
): Promise<TurnEnd | undefined> {
  const { turns, enqueue } = options;
  const { name, occurrences } = schedule;
  return inBoundedTransaction(options, async (executor, tx) => {
    const taken = await turns.take(executor, name, lastDueMs);
    if (taken === undefined) return undefined;
    const due = occurrences.latest(lastDueMs, taken.nowMs);
    if (due === undefined) return undefined;
    const nextDueMs = occurrences.nextAfter(due.dueMs) ?? null;
    const reason = reasonToSkip(schedule, due.dueMs, taken);
    if (reason !== undefined) {
      await turns.moveOn(executor, { name, dueMs: due.dueMs, nextDueMs, jobId: null });
      return { kind: "skipped", reason, ...due };
    }
    const { id, created } = await enqueue(tx, schedule, due.dueMs);
    await turns.moveOn(executor, { name, dueMs: due.dueMs, nextDueMs, jobId: id });
    return { kind: "enqueued", jobId: id, created, ...due };
  });
}

function reasonToSkip(
  { maxLateMs, skipsOverlap }: CheckedSchedule,
  dueMs: number,
  taken: { readonly nowMs: number; readonly isUnfinished: boolean },
): "late" | "overlap" | undefined {
  if (taken.nowMs - dueMs > maxLateMs) return "late";
  return taken.isUnfinished && skipsOverlap ? "overlap" : undefined;
}
