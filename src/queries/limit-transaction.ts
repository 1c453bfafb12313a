import type { Executor, Statement } from "./executor.js";

/**
 * Sets a limit in milliseconds for the transaction: the smaller of the session's own and ours; 0 is the session's "none".
 *
 * @param limit A parameter, `$1` or by its name.
 */
export const lowered = (setting: string, limit: string): string => `
  set_config('${setting}', ceil(least(
    nullif(extract(epoch from current_setting('${setting}')::interval) * 1000, 0), ${limit}::float8
  ))::bigint::text, true)`;

const text = `
  select ${lowered("statement_timeout", "$1")}, ${lowered("idle_in_transaction_session_timeout", "$1")}, pg_backend_pid() as backend`;

/**
 * Bounds the transaction that is open on `executor`: a statement, or a pause
 * between two, that takes longer than `limitMs` ends it. A shorter limit of the
 * app's own stays. Nothing outlives the transaction, so a pooled connection
 * goes back as it was.
 *
 * @returns The server's process of the transaction.
 */
export async function limitTransaction(executor: Executor, limitMs: number): Promise<number> {
  const statement: Statement = {
    name: "drizzle_queue_limit_transaction",
    text,
    values: [Math.max(1, limitMs)],
  };
  const [row] = await executor.run(statement);
  return Number(row?.["backend"]);
}
