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
const HARMLESS = {
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
    const wrong = await runIn(db, async (tx) => {
      effectTx = tx;
      await work(NOWHERE, LINK);
    });
    if (wrong === undefined) return;
    misuse ??= wrong;
    throw wrong;
  };
  const commit = createCommit({
    db: NOWHERE as unknown as PgDatabase,
    transact,
    async guard() {
      await askIfAborted(effectTx);
      if (attempt?.abortReason?.code === "LEASE_LOST") return { kind: "lost" };
      return { kind: "held", transactionId: "0" };
    },
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

/** Runs work in a transaction, and tells where that cannot have been one. */
async function runIn(
  db: PgDatabase | undefined,
  work: (tx: PgTransaction) => Promise<void>,
): Promise<QueueError | undefined> {
  let begun = 0;
  let ended = 0;
  const run = async (tx: PgTransaction): Promise<void> => {
    begun += 1;
    await work(tx);
    ended += 1;
  };
  if (db !== undefined)
    await (isTransaction(db) ? db.transaction(run) : db.transaction(run, READ_COMMITTED));
  return misuseOf(db, begun, ended);
}

/**
 * Sends a statement, as a guard would: PostgreSQL refuses it where an earlier one errored and the effect
 * caught that, while it answers the COMMIT of such a transaction with a rollback that a driver takes for success.
 */
async function askIfAborted(tx: PgTransaction | undefined): Promise<void> {
  // A fake is sent nothing that its test has not thought of, unless it is a mock of everything, which may answer nothing.
  if (tx === undefined || !isTransaction(tx) || typeof tx.execute !== "function") return;
  const execute = async (query: never) => (await tx.execute(query)) ?? [];
  await drizzleExecutor({ ...NOWHERE, execute }).run(HARMLESS);
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
  const wrong =
    begun === 1 ? "resolved where run(tx) had rejected, or not ended" : `called run ${begun} times`;
  return new QueueError(
    "INVALID_OPTION",
    `runHandler(): db.transaction(run) ${wrong}. A fake must call run(tx) once and await it: { transaction: (run) => run(tx) }.`,
  );
}
