import { drizzleExecutor } from "../../queries/executor.js";
import type { PgDatabase, PgTransaction } from "../../queries/transaction.js";
import { after } from "../clock.js";
import { DeadlineError } from "../deadline.js";
import type { Driver } from "./driver.js";

/** The connection of a transaction. */
export interface TransactionLink {
  /** Whether it was lost or given up, so that nothing of the work can be committed. */
  isLost(): boolean;
  /** Gives it up: the transaction rejects with `reason`. Undefined where no network can fail. */
  readonly giveUp: ((reason: Error) => void) | undefined;
}

/** Runs work in a READ COMMITTED transaction of the app's database. */
export type Transact = (
  db: PgDatabase,
  work: (tx: PgTransaction, link: TransactionLink) => Promise<void>,
) => Promise<void>;

/** How long BEGIN may go without an answer, in milliseconds; the wait for a free connection is the app's. */
const BEGIN_DEADLINE_MS = 10_000;

const READ_COMMITTED = { isolationLevel: "read committed" };
const SET_READ_COMMITTED = {
  name: "drizzle_queue_set_read_committed",
  text: "set transaction isolation level read committed",
  values: [],
};

/** Picks how a driver's transactions are run. */
export function transactOf(driver: Driver): Transact {
  if (driver.kind === "postgres.js") return transactOnPostgresJs;
  return driver.kind === "pglite" ? transactOnPGlite : transactOnNodePostgres;
}

const transactOnPGlite: Transact = async (db, work) => {
  const link = { isLost: () => false, giveUp: undefined };
  await db.transaction((tx) => work(tx, link), READ_COMMITTED);
};

/** A way to give up what may never answer. */
function createSurrender() {
  let reason: Error | undefined;
  let reject = (_reason: Error): void => {};
  const surrendered = new Promise<never>((_, rejectIt) => {
    reject = rejectIt;
  });
  // Most are never given up, and then nobody waits for this.
  surrendered.catch(() => undefined);
  return {
    surrendered,
    reason: () => reason,
    giveUp(given: Error): void {
      reason ??= given;
      reject(given);
    },
  };
}

/** A client of the app's pool, as far as it is used. */
interface PooledClient {
  readonly connection?: { readonly stream?: { destroy(reason: Error): void } };
}

/**
 * A connection that is given up is destroyed, so that the app's pool gets its
 * place back; the statement that waited for an answer rejects by that.
 */
const transactOnNodePostgres: Transact = async (db, work) => {
  const { surrendered, reason, giveUp: surrender } = createSurrender();
  let client: PooledClient | undefined;
  let callOff = (): void => {};
  const giveUp = (error: Error): void => {
    surrender(error);
    client?.connection?.stream?.destroy(error);
  };
  const link = { isLost: () => reason() !== undefined, giveUp };
  const run = async (tx: PgTransaction): Promise<void> => {
    callOff();
    await work(tx, link);
    const given = reason();
    if (given !== undefined) throw given;
  };
  const onConnected = (taken: PooledClient): void => {
    client = taken;
    callOff = after(BEGIN_DEADLINE_MS, () =>
      giveUp(new DeadlineError(`No answer after ${BEGIN_DEADLINE_MS} ms: begin.`)),
    );
  };
  const pool = (db as { readonly $client?: unknown }).$client;
  try {
    await Promise.race([
      takingFrom(pool, onConnected, () => db.transaction(run, READ_COMMITTED)),
      surrendered,
    ]);
  } finally {
    callOff();
    // By now it may be another transaction's.
    client = undefined;
  }
};

/**
 * Starts a transaction and tells which of the pool's clients it takes.
 *
 * Drizzle asks for it before `transaction` returns and keeps it to itself; so
 * the pool is listened to for that moment, in which nobody else can ask.
 */
function takingFrom<T>(
  pool: unknown,
  onConnected: (client: PooledClient) => void,
  start: () => Promise<T>,
): Promise<T> {
  const { connect } = pool as { connect?: (...given: unknown[]) => unknown };
  if (typeof connect !== "function") return start();
  const isOwn = Object.hasOwn(pool as object, "connect");
  const listened = (...given: unknown[]): unknown => {
    const connecting = connect.apply(pool, given);
    if (connecting instanceof Promise) connecting.then(onConnected, () => undefined);
    return connecting;
  };
  Object.assign(pool as object, { connect: listened });
  try {
    return start();
  } finally {
    if (isOwn) Object.assign(pool as object, { connect });
    else Reflect.deleteProperty(pool as object, "connect");
  }
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
  const { surrendered, giveUp } = createSurrender();
  let isOver = false;
  let tell = (): void => {};
  const over = new Promise<void>((resolve) => {
    tell = resolve;
  });
  const run = async (tx: PgTransaction): Promise<void> => {
    try {
      // Set here, not through Drizzle's option: an error there would escape this try block.
      await drizzleExecutor(tx).run(SET_READ_COMMITTED);
      await work(tx, { isLost: () => isOver, giveUp });
    } catch (error) {
      if (isConnectionLoss(error)) await Promise.race([over, pause(LOSS_MS)]);
      if (!isOver) throw error;
    }
    if (isOver) await new Promise<never>(() => {});
  };
  try {
    await Promise.race([db.transaction(run), surrendered]);
  } finally {
    isOver = true;
    tell();
  }
};

const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    after(ms, resolve);
  });

const MAX_CAUSES = 5;

/** Whether an error may be the last word of a connection: the server's, the driver's or the network's. */
function isConnectionLoss(error: unknown, depth = 0): boolean {
  // A chain of causes may be a ring.
  if (typeof error !== "object" || error === null || depth > MAX_CAUSES) return false;
  const { code, severity, cause } = error as Readonly<Record<string, unknown>>;
  if (severity === "FATAL" || severity === "PANIC") return true;
  if (typeof code === "string" && /^(CONNECTION_|ECONNRESET|EPIPE|ETIMEDOUT)/.test(code))
    return true;
  return isConnectionLoss(cause, depth + 1);
}
