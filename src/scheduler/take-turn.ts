import type { ScheduleTurns } from "../queries/schedule-turns.js";
import type { PgTransaction } from "../queries/transaction.js";
import { type BoundedTransactionOptions, inBoundedTransaction } from "./bounded-transaction.js";
import type { CheckedSchedule } from "./schedule-options.js";

/** An occurrence that is due, and how far its schedule has come. */
export interface Turn {
  readonly schedule: CheckedSchedule;
  readonly lastDueMs: number;
  readonly dueMs: number;
  /** Whether it is too late to enqueue it. */
  readonly isLate: boolean;
}

/** What became of a turn that was taken. */
export type TurnEnd =
  | { readonly kind: "enqueued"; readonly jobId: number; readonly created: boolean }
  | { readonly kind: "skipped"; readonly reason: "overlap" | "late" };

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
 * Enqueues or skips an occurrence, and moves its schedule on, in one transaction.
 *
 * @returns Undefined where the turn is somebody else's or was, or its schedule is paused.
 * @throws What the app's payload function or `enqueue` throws, and errors of the database; then the turn can be taken again.
 */
export async function takeTurn(options: TurnOptions, turn: Turn): Promise<TurnEnd | undefined> {
  const { turns, enqueue } = options;
  const { schedule, lastDueMs, dueMs, isLate } = turn;
  const { name } = schedule;
  return inBoundedTransaction(options, async (executor, tx) => {
    const taken = await turns.take(executor, { name, lastDueMs, dueMs });
    if (taken === undefined) return undefined;
    const nextDueMs = schedule.occurrences.nextAfter(dueMs) ?? null;
    const reason = isLate ? "late" : taken.isOpen && schedule.skipsOverlap ? "overlap" : undefined;
    if (reason !== undefined) {
      await turns.moveOn(executor, { name, dueMs, nextDueMs, jobId: null });
      return { kind: "skipped", reason };
    }
    const { id, created } = await enqueue(tx, schedule, dueMs);
    await turns.moveOn(executor, { name, dueMs, nextDueMs, jobId: id });
    return { kind: "enqueued", jobId: id, created };
  });
}
