import type { Executor, Statement } from "./executor.js";

/**
 * Bounds the transaction that is open on `executor`: a statement, or a pause
 * between two, that takes longer than `limitMs` ends it. Nothing outlives the
 * transaction, so a pooled connection goes back as it was.
 */
export async function limitTransaction(executor: Executor, limitMs: number): Promise<void> {
  const statement: Statement = {
    name: "drizzle_queue_limit_transaction",
    text: `select set_config('statement_timeout', $1::text, true),
      set_config('idle_in_transaction_session_timeout', $1::text, true)`,
    values: [String(Math.max(1, Math.ceil(limitMs)))],
  };
  await executor.run(statement);
}
