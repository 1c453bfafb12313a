import { QueueError } from "../errors.js";
import type { PgExecutor } from "../queries/executor.js";
import { isTransaction, type PgDatabase, type PgTransaction } from "../queries/transaction.js";
import { type CommitJob, createCommit } from "../worker/commit.js";
import type { Transact } from "../worker/drivers/transact.js";
import { resultText } from "../worker/run-job.js";

/** `commit` for an attempt at a job that has no row. */
export interface CommitInTest {
  readonly commit: CommitJob;
  /** The result that it would have stored, as JSON text. */
  result(): string | null;
  /** Set once a handler has called it without a database. */
  misuse(): QueueError | undefined;
}

/** Stands for the transaction where the worker's own statements go: there is no row that they could guard. */
const NOWHERE = { execute: () => Promise.resolve([]) } as unknown as PgTransaction;
const LINK = { isLost: () => false, giveUp: undefined };
const READ_COMMITTED = { isolationLevel: "read committed" };

/**
 * Makes a worker's `commit` with its own rules, but for the statements on the job's row.
 *
 * `db` is a database, or a transaction of the test, in which the effect is a savepoint.
 */
export function commitInTest(db: PgDatabase | undefined, maxResultBytes: number): CommitInTest {
  let stored: string | null = null;
  let misuse: QueueError | undefined;
  let effectTx: PgExecutor | undefined;
  const transact: Transact = async (_, work) => {
    if (db === undefined) {
      misuse = new QueueError(
        "INVALID_OPTION",
        "runHandler(): the handler calls commit, so db must be given: a Drizzle database, or a transaction that the test rolls back.",
      );
      throw misuse;
    }
    const run = async (tx: PgTransaction): Promise<void> => {
      effectTx = tx;
      await work(NOWHERE, LINK);
    };
    await (isTransaction(db) ? db.transaction(run) : db.transaction(run, READ_COMMITTED));
  };
  const commit = createCommit({
    db: NOWHERE as unknown as PgDatabase,
    transact,
    guard: () => Promise.resolve({ kind: "held", transactionId: "0" }),
    // Asked only after a COMMIT that errored without a word of the server.
    own: { run: () => Promise.resolve([{ status: "aborted" }]) },
    resultText: (held, result) => {
      stored = resultText(held, result, maxResultBytes);
      return stored;
    },
  });
  return {
    commit: (held, effect) => commit(held, () => effect(effectTx as never)),
    result: () => stored,
    misuse: () => misuse,
  };
}
