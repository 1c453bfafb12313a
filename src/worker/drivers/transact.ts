import { drizzleExecutor } from "../../queries/executor.js";
import type { PgDatabase, PgTransaction } from "../../queries/transaction.js";
import { after } from "../clock.js";
import type { Driver } from "./driver.js";

/** Runs work in a READ COMMITTED transaction of the app's database. */
export type Transact = (
  db: PgDatabase,
  work: (tx: PgTransaction, isLost: () => boolean) => Promise<void>,
) => Promise<void>;

const READ_COMMITTED = { isolationLevel: "read committed" };
const SET_READ_COMMITTED = {
  name: "drizzle_queue_set_read_committed",
  text: "set transaction isolation level read committed",
  values: [],
};

/** Picks how a driver's transactions are run. */
export function transactOf(driver: Driver): Transact {
  if (driver.kind === "postgres.js") return transactOnPostgresJs;
  return async (db, work) => {
    await db.transaction((tx) => work(tx, () => false), READ_COMMITTED);
  };
}

/** A connection's last error comes before its end, but not by much, in milliseconds. */
const LOSS_MS = 1_000;

/**
 * Keeps the loss of a transaction's connection from ending the process or
 * touching another transaction.
 *
 * postgres.js (3.4) rejects such a transaction by itself. A callback that then
 * ended as well would have it send `rollback` or `commit` over a connection that
 * is gone, which throws where nobody can catch it, or over its successor, which may
 * be in another transaction. So the callback of a lost one never ends.
 */
const transactOnPostgresJs: Transact = async (db, work) => {
  let isOver = false;
  let tell = (): void => {};
  const over = new Promise<void>((resolve) => {
    tell = resolve;
  });
  const run = async (tx: PgTransaction): Promise<void> => {
    try {
      // Said here: an error of Drizzle's own way of saying it could not be held back.
      await drizzleExecutor(tx).run(SET_READ_COMMITTED);
      await work(tx, () => isOver);
    } catch (error) {
      if (isConnectionLoss(error)) await Promise.race([over, pause(LOSS_MS)]);
      if (!isOver) throw error;
    }
    if (isOver) await new Promise<never>(() => {});
  };
  try {
    await db.transaction(run);
  } finally {
    isOver = true;
    tell();
  }
};

const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    after(ms, resolve);
  });

/** Whether an error may be the last word of a connection: the server's, the driver's or the network's. */
function isConnectionLoss(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { code, severity, cause } = error as Readonly<Record<string, unknown>>;
  if (severity === "FATAL" || severity === "PANIC") return true;
  if (typeof code === "string" && /^(CONNECTION_|ECONNRESET|EPIPE|ETIMEDOUT)/.test(code))
    return true;
  return cause !== error && isConnectionLoss(cause);
}
