import { QueueError } from "../errors.js";
import { drizzleExecutor } from "../queries/executor.js";
import { isTransaction, type PgDatabase, type PgTransaction } from "../queries/transaction.js";
import { type CommitJob, createCommit } from "../worker/commit.js";
import type { Transact } from "../worker/drivers/transact.js";
import type { HeldJob } from "../worker/held-job.js";
import { resultText } from "../worker/run-job.js";

/** `commit` for an attempt at a job that has no row. */
export interface CommitInTest {
  readonly commit: CommitJob;
  /** The result that it would have stored, as JSON text. */
  result(): string | null;
  /** Set once a handler has called it and there was no database, or none that can be one. */
  misuse(): QueueError | undefined;
}

/** Stands for the transaction where the worker's own statements go: there is no row that they could guard. */
const NOWHERE = { execute: () => Promise.resolve([]) } as unknown as PgTransaction;
const LINK = { isLost: () => false, giveUp: undefined };
const READ_COMMITTED = { isolationLevel: "read committed" };
const TRANSACTION_ID = {
  name: "drizzle_queue_transaction_id",
  text: "select pg_current_xact_id()::text as transaction",
  values: [],
};

/**
 * Makes a worker's `commit` with its own rules, but for the statements on the job's row.
 *
 * `db` is a database, or a transaction of the test, in which the effect is a savepoint.
 */
export function commitInTest(db: PgDatabase | undefined, maxResultBytes: number): CommitInTest {
  let stored: string | null = null;
  let misuse: QueueError | undefined;
  let effectTx: PgTransaction | undefined;
  let attempt: HeldJob | undefined;
  const transact: Transact = async (_, work) => {
    let begun = 0;
    let ended = 0;
    const run = async (tx: PgTransaction): Promise<void> => {
      begun += 1;
      effectTx = tx;
      await work(NOWHERE, LINK);
      ended += 1;
    };
    if (db !== undefined)
      await (isTransaction(db) ? db.transaction(run) : db.transaction(run, READ_COMMITTED));
    misuse = misuseOf(db, begun, ended);
    if (misuse !== undefined) throw misuse;
  };
  const commit = createCommit({
    db: NOWHERE as unknown as PgDatabase,
    transact,
    guard: async () =>
      attempt?.abortReason?.code === "LEASE_LOST"
        ? { kind: "lost" }
        : { kind: "held", transactionId: await transactionIdOf(effectTx) },
    // Asked only after a COMMIT that errored without a word of the server.
    own: { run: () => Promise.resolve([{ status: "aborted" }]) },
    resultText: (held, result) => {
      stored = resultText(held, result, maxResultBytes);
      return stored;
    },
  });
  return {
    commit(held, effect) {
      attempt = held;
      return commit(held, () => effect(effectTx as never));
    },
    result: () => stored,
    misuse: () => misuse,
  };
}

/**
 * Sends a statement, as a guard would: PostgreSQL refuses it where an earlier one errored and the effect
 * caught that, while it answers the COMMIT of such a transaction with a rollback that a driver takes for success.
 */
async function transactionIdOf(tx: PgTransaction | undefined): Promise<string> {
  // A fake of a test is sent nothing that the test has not thought of.
  if (tx === undefined || !isTransaction(tx) || typeof tx.execute !== "function") return "0";
  const [row] = await drizzleExecutor(tx).run(TRANSACTION_ID);
  return String(row?.["transaction"]);
}

function misuseOf(
  db: PgDatabase | undefined,
  begun: number,
  ended: number,
): QueueError | undefined {
  if (db === undefined)
    return new QueueError(
      "INVALID_OPTION",
      "runHandler(): the handler calls commit, so db must be given: a Drizzle database, or a transaction that the test rolls back.",
    );
  if (begun === 1 && ended === 1) return undefined;
  return new QueueError(
    "INVALID_OPTION",
    `runHandler(): db.transaction(run) called run ${begun} times, of which ${ended} ended well before it resolved. A fake must call run(tx) once and await it: { transaction: (run) => run(tx) }.`,
  );
}
