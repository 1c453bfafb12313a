import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { template } from "./template.js";

const text = `
  select (select expired_leases from {jobs} limit 0) as jobs,
    (select expires_at from {processedKeys} limit 0) as processed_keys,
    (select poll_interval_ms from {workers} limit 0) as workers, (select paused_at from {controls} limit 0) as controls`;

/** Errors when the queue's tables, or columns of this version, are not there. */
export function checkTables(tables: TableNames): (executor: Executor) => Promise<void> {
  const prepared = template("check_tables", text, tables);
  return async (executor) => {
    await executor.run(prepared.bind({}));
  };
}
