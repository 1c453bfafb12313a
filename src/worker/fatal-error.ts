import { isQueueError } from "../errors.js";
import { sqlState } from "../queries/sql-errors.js";

/** What waiting would not mend: missing tables, or a role or database that the server refuses. */
export function isFatal(error: unknown): boolean {
  return isQueueError(error) || /^(28|3D|42501)/.test(sqlState(error) ?? "");
}
