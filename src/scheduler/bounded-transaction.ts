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
  /** Whether nothing is to be begun any more. */
  readonly isStopped: () => boolean;
}

/**
 * How long a transaction of a scheduler may last, and how long it may do nothing, in milliseconds. A process
 * that is frozen within one holds up its schedule for so long. A connection is not waited for longer either.
 */
export const TRANSACTION_LIMIT_MS = 10_000;

/** Runs work in a transaction that begins and ends in time, on both sides of the network. */
export async function inBoundedTransaction<T>(
  { db, transact, explained, isStopped }: BoundedTransactionOptions,
  work: (executor: Executor, tx: PgTransaction) => Promise<T>,
): Promise<T> {
  let result: { readonly value: T } | undefined;
  let isTooLate = false;
  let callOff = (): void => {};
  const noConnection = new Promise<never>((_, reject) => {
    callOff = after(TRANSACTION_LIMIT_MS, () => {
      isTooLate = true;
      reject(new DeadlineError(`No connection of the pool after ${TRANSACTION_LIMIT_MS} ms.`));
    });
  });
  const run = transact(db, async (tx, { isLost, giveUp }) => {
    callOff();
    // The pool may give a connection long after nobody waits for it any more.
    if (isTooLate || isStopped()) throw new Error("The scheduler has gone on, or was stopped.");
    callOff = after(TRANSACTION_LIMIT_MS, () =>
      giveUp?.(
        new DeadlineError(`No answer after ${TRANSACTION_LIMIT_MS} ms: a scheduler's transaction.`),
      ),
    );
    const executor = explained(drizzleExecutor(tx));
    await limitTransaction(executor, TRANSACTION_LIMIT_MS);
    const value = await work(executor, tx);
    if (isLost()) throw new Error("The connection was lost before the transaction was complete.");
    result = { value };
  });
  try {
    await Promise.race([run, noConnection]);
  } finally {
    callOff();
    // Too late it rejects for nobody.
    run.catch(() => undefined);
  }
  // The transaction was committed, so its work has ended.
  return (result as { readonly value: T }).value;
}
