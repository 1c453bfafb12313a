import type { Executor, Statement } from "./executor.js";

/** The smaller of the session's own limit and ours; 0 is the session's "none". */
const lowered = (setting: string): string => `
  set_config('${setting}', ceil(least(
    nullif(extract(epoch from current_setting('${setting}')::interval) * 1000, 0), $1::float8
  ))::bigint::text, true)`;

const text = `
  select ${lowered("statement_timeout")}, ${lowered("idle_in_transaction_session_timeout")}, pg_backend_pid() as backend`;

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
