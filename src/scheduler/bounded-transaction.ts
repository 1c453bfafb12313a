import { drizzleExecutor, type Executor } from "../queries/executor.js";
import { limitTransaction } from "../queries/limit-transaction.js";
import type { PgDatabase, PgTransaction } from "../queries/transaction.js";
import { after } from "../worker/clock.js";
import { DeadlineError } from "../worker/deadline.js";
import type { Transact } from "../worker/drivers/transact.js";

export interface BoundedTransactionOptions {
  readonly db: PgDatabase;
  readonly transact: Transact;
  /** What says what to do where the queue's tables are missing. */
  readonly explained: (executor: Executor) => Executor;
}

/**
 * How long a transaction of a scheduler may last, and how long it may do nothing, in milliseconds. A process
 * that is frozen within one holds up its schedule for so long.
 */
export const TRANSACTION_LIMIT_MS = 10_000;

/** Runs work in a transaction that ends in time, on both sides of the network. */
export async function inBoundedTransaction<T>(
  { db, transact, explained }: BoundedTransactionOptions,
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
