import { drizzleExecutor, type Executor } from "../queries/executor.js";
import { limitTransaction } from "../queries/limit-transaction.js";
import type { ScheduleTurns } from "../queries/schedule-turns.js";
import type { PgDatabase, PgTransaction } from "../queries/transaction.js";
import { after } from "../worker/clock.js";
import { DeadlineError } from "../worker/deadline.js";
import type { Transact } from "../worker/drivers/transact.js";
import type { CheckedSchedule } from "./schedule-options.js";

/** An occurrence that is due, and how far its schedule has come. */
export interface Turn {
  readonly schedule: CheckedSchedule;
  readonly lastDueMs: number;
  readonly dueMs: number;
  /** Whether it is too late to enqueue it. */
  readonly isLate: boolean;
}

/** What became of a turn; undefined: somebody else takes or took it, or it was paused. */
export type TurnEnd =
  | { readonly kind: "enqueued"; readonly jobId: number; readonly created: boolean }
  | { readonly kind: "skipped"; readonly reason: "overlap" | "late" };

/** A job that is enqueued in a transaction. */
export type EnqueueScheduled = (
  tx: PgTransaction,
  schedule: CheckedSchedule,
  dueMs: number,
) => Promise<{ readonly id: number; readonly created: boolean }>;

export interface TurnOptions {
  readonly db: PgDatabase;
  readonly transact: Transact;
  /** What says what to do where the queue's tables are missing. */
  readonly explained: (executor: Executor) => Executor;
  readonly turns: ScheduleTurns;
  readonly enqueue: EnqueueScheduled;
}

/** How long a transaction of a scheduler may last, and a pause in it, in milliseconds: who was stopped in one holds up its schedule. */
export const TRANSACTION_LIMIT_MS = 10_000;

/** Runs work in a transaction that ends in time, on both sides of the network. */
export async function inBoundedTransaction<T>(
  { db, transact, explained }: Pick<TurnOptions, "db" | "transact" | "explained">,
  work: (executor: Executor, tx: PgTransaction) => Promise<T>,
): Promise<T> {
  let result: { readonly value: T } | undefined;
  let callOff = (): void => {};
  try {
    await transact(db, async (tx, { isLost, giveUp }) => {
      callOff = after(TRANSACTION_LIMIT_MS, () =>
        giveUp?.(
          new DeadlineError(
            `No answer after ${TRANSACTION_LIMIT_MS} ms: a scheduler's transaction.`,
          ),
        ),
      );
      const executor = explained(drizzleExecutor(tx));
      await limitTransaction(executor, TRANSACTION_LIMIT_MS);
      const value = await work(executor, tx);
      if (isLost()) throw new Error("The connection was lost before the transaction was complete.");
      result = { value };
    });
  } finally {
    callOff();
  }
  // The transaction was committed, so its work has ended.
  return (result as { readonly value: T }).value;
}

/**
 * Enqueues or skips an occurrence, and moves its schedule on, in one transaction.
 *
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
