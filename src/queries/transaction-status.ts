import type { Executor, Statement } from "./executor.js";

/** What became of a transaction; `unknown` when the server has forgotten it. */
export type TransactionStatus = "committed" | "aborted" | "in progress" | "unknown";

/** Tells what became of a transaction whose answer to COMMIT was lost. */
export async function transactionStatus(
  executor: Executor,
  transactionId: string,
): Promise<TransactionStatus> {
  const statement: Statement = {
    name: "drizzle_queue_transaction_status",
    text: "select pg_xact_status($1::text::xid8) as status",
    values: [transactionId],
  };
  const [row] = await executor.run(statement);
  return (row?.["status"] as TransactionStatus | null | undefined) ?? "unknown";
}
