import type { PgExecutor } from "./executor.js";

/** A Drizzle PostgreSQL transaction, structurally: only transactions can roll back. */
export interface PgTransaction extends PgExecutor {
  rollback(): never;
}

/** A Drizzle PostgreSQL database that can open transactions, structurally. */
export interface PgDatabase extends PgExecutor {
  // What a callback is given is compared strictly, so this must be what a database really hands out.
  transaction(run: (tx: PgTransaction) => Promise<unknown>, config?: object): Promise<unknown>;
}

/**
 * The transaction type of a database: what `db.transaction` hands to its callback.
 *
 * @example
 * type Tx = TxOf<typeof db>;
 */
export type TxOf<DB> = DB extends {
  transaction(run: (tx: infer Tx) => Promise<unknown>, ...rest: never[]): unknown;
}
  ? Tx
  : never;

declare const REFUSED: unique symbol;

/** A type that no value has; its text is what the compiler prints. */
export interface Refused<Reason extends string> {
  readonly [REFUSED]: Reason;
}

/** Demands a transaction where a bare database, or one of the two, would also fit. */
export type RequireTx<T> = [T] extends [{ rollback(): never }]
  ? unknown
  : Refused<"drizzle-queue: pass the `tx` of db.transaction(async (tx) => …), or call enqueueNow(db, …) to enqueue outside of a transaction on purpose">;

/** Tells whether `target` is a transaction; a Drizzle database has no `rollback`. */
export const isTransaction = (target: unknown): boolean =>
  typeof (target as { readonly rollback?: unknown } | null | undefined)?.rollback === "function";
