import { backendState } from "../queries/backend-state.js";
import { drizzleExecutor, type Executor } from "../queries/executor.js";
import type { GuardAnswer, GuardedAttempt } from "../queries/guard-job.js";
import { limitTransaction } from "../queries/limit-transaction.js";
import { isAnswered } from "../queries/sql-errors.js";
import type { PgDatabase } from "../queries/transaction.js";
import { type TransactionStatus, transactionStatus } from "../queries/transaction-status.js";
import { jittered, monotonicMs } from "./clock.js";
import type { Transact } from "./drivers/transact.js";
import { attemptError, type HeldJob, leaseEndMs } from "./held-job.js";
import { watchSilence } from "./silence-watch.js";

/**
 * Invariant: of all attempts at a job at most one commits its effects, since
 * the transaction that holds them also moves the job from `running` to `done`
 * under the attempt's lease version, as its last statement.
 *
 * It runs on the app's own pool and is explicitly READ COMMITTED: at a higher
 * level any renewal meanwhile would make the guard error (40001).
 */

export interface CommitOptions {
  readonly db: PgDatabase;
  /** Runs work in a transaction of the app's database. */
  readonly transact: Transact;
  readonly guard: (executor: Executor, attempt: GuardedAttempt) => Promise<GuardAnswer>;
  /** The worker's own connection, to ask what became of a transaction. */
  readonly own: Executor;
  /** Checks a result and gives the JSON that is stored, or null; throws what ends the attempt. */
  readonly resultText: (held: HeldJob, result: unknown) => string | null;
}

/** How often at most the server is asked whether a transaction is still there, in milliseconds. */
const WATCH_MS = 10_000;

/** Runs an app's effect and completes its job in one transaction. */
export type CommitJob = (held: HeldJob, effect: (tx: never) => unknown) => Promise<unknown>;

/** Creates `commit` for all jobs of a worker. */
export function createCommit(options: CommitOptions): CommitJob {
  return async (held, effect) => {
    refuseWhenOver(held);
    held.commit = "committing";
    let transactionId: string | undefined;
    let result: unknown;
    let unwatch = (): void => {};
    try {
      await options.transact(options.db, async (tx, { isLost, giveUp }) => {
        // The app's pool may have kept it waiting for long.
        refuseWhenAborted(held);
        let backend: number | undefined;
        if (giveUp !== undefined) {
          const { leaseMs } = held.definition;
          const isOver = () => isTransactionOver(options.own, { backend, transactionId, leaseMs });
          const everyMs = Math.min(WATCH_MS, leaseMs);
          unwatch = watchSilence({
            everyMs,
            isOver,
            giveUp: () =>
              giveUp(
                new Error(
                  "The connection of commit was lost: the server has ended its transaction.",
                ),
              ),
          });
        }
        backend = await limitTransaction(drizzleExecutor(tx), leaseEndMs(held) - monotonicMs());
        result = await effect(tx as never);
        if (isLost()) throw new Error("The connection was lost before the effect was complete.");
        transactionId = await complete(options, held, drizzleExecutor(tx), result);
      });
      held.commit = "committed";
      return result;
    } catch (error) {
      // Once the guard has held, only COMMIT was left: without an answer it may have been carried out.
      if (transactionId === undefined || isAnswered(error)) held.commit = "none";
      else {
        held.commit = "unknown";
        held.commit = await fateOf(options.own, held, transactionId);
      }
      if (held.commit === "committed") return result;
      throw error;
    } finally {
      unwatch();
    }
  };
}

/** What is known of a transaction so far. */
interface KnownTransaction {
  readonly backend: number | undefined;
  readonly transactionId: string | undefined;
  readonly leaseMs: number;
}

/** Whether the server has ended the transaction, or has not even answered its first statement. */
async function isTransactionOver(
  own: Executor,
  { backend, transactionId, leaseMs }: KnownTransaction,
): Promise<boolean> {
  if (transactionId !== undefined)
    return (await transactionStatus(own, transactionId)) !== "in progress";
  if (backend === undefined) return true;
  // The server ends a transaction that falls silent, since its pauses are limited.
  const { doing, forMs } = await backendState(own, backend);
  return doing === "gone" || (doing === "receiving" && forMs > leaseMs);
}

function refuseWhenOver(held: HeldJob): void {
  if (held.commit !== "none") {
    throw attemptError(
      held,
      "COMMITTED_TWICE",
      "commit was called again while or after it succeeded. Put all effects into one commit.",
    );
  }
  refuseWhenAborted(held);
  if (held.phase !== "running")
    throw attemptError(held, "LEASE_LOST", "commit was called after the attempt had ended.");
}

function refuseWhenAborted({ abortReason }: HeldJob): void {
  if (abortReason !== undefined && abortReason.code !== "WORKER_STOPPING") throw abortReason;
}

async function complete(
  { guard, resultText }: CommitOptions,
  held: HeldJob,
  executor: Executor,
  result: unknown,
): Promise<string> {
  const { id, leaseVersion, idempotencyKey } = held.job;
  const answer = await guard(executor, {
    id,
    leaseVersion,
    hasKey: idempotencyKey !== null,
    result: resultText(held, result),
  });
  switch (answer.kind) {
    case "held":
      return answer.transactionId;
    case "lost":
      throw attemptError(
        held,
        "LEASE_LOST",
        "another attempt may hold the job now; nothing of this commit was written.",
      );
    case "already_processed":
      throw attemptError(
        held,
        "ALREADY_PROCESSED",
        "its key is recorded; nothing of this commit was written.",
      );
  }
}

/** Asks what became of the transaction, until the server knows or the lease has run out; once in any case. */
async function fateOf(
  own: Executor,
  held: HeldJob,
  transactionId: string,
): Promise<HeldJob["commit"]> {
  do {
    const status = await statusOrError(own, transactionId);
    if (status === "committed") return "committed";
    if (status === "aborted") return "none";
    if (status === "unknown") break;
    // Not a reason for the process to go on, once its worker was stopped.
    await new Promise((done) => setTimeout(done, jittered(100)).unref());
  } while (monotonicMs() < leaseEndMs(held));
  return "unknown";
}

async function statusOrError(
  own: Executor,
  transactionId: string,
): Promise<TransactionStatus | "unreachable"> {
  try {
    return await transactionStatus(own, transactionId);
  } catch {
    // The connection reports its own losses; this question is asked again.
    return "unreachable";
  }
}
