import { drizzleExecutor, type Executor, type PgExecutor } from "../queries/executor.js";
import { explainingMissingTables } from "../queries/missing-tables.js";
import { checkInteger, invalidOption } from "../registry/option-checks.js";
import type { TableNames } from "../schema/table-names.js";

/**
 * What runs the statements of a call.
 *
 * @throws {QueueError} `INVALID_OPTION` when `db` is nothing that runs a statement.
 */
export function executorOf(who: string, db: PgExecutor, tables: TableNames): Executor {
  if (typeof (db as Partial<PgExecutor> | undefined)?.execute !== "function")
    throw invalidOption(`${who}(): db`, "a Drizzle database or transaction", db);
  return explainingMissingTables(drizzleExecutor(db), tables);
}

/** @throws {QueueError} `INVALID_OPTION` when it is no id of a job. */
export function checkId(option: string, id: unknown): void {
  if (typeof id === "string")
    throw invalidOption(option, "a number: Number(id), where it comes from a URL", id);
  checkInteger(option, id, 1, Number.MAX_SAFE_INTEGER);
}

/** @throws {QueueError} `INVALID_OPTION` when one of them is no id of a job. */
export function checkIds(option: string, ids: readonly unknown[]): void {
  if (!Array.isArray(ids)) throw invalidOption(option, "an array of ids", ids);
  for (const [index, id] of ids.entries()) checkId(`${option}[${index}]`, id);
}
