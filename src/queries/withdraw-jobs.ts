import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { type Template, template } from "./template.js";

const WITHDRAW_JOBS = "delete from {jobs} where id = any($ids::text::bigint[])";

/** Prepares the statement for a set of tables. */
export const withdrawJobsTemplate = (tables: TableNames): Template =>
  template("withdraw_jobs", WITHDRAW_JOBS, tables);

/** Deletes jobs that the same, still open transaction has inserted: nobody else has seen them. */
export async function withdrawJobs(
  executor: Executor,
  statement: Template,
  ids: readonly number[],
): Promise<void> {
  if (ids.length > 0) await executor.run(statement.bind({ ids: `{${ids.join(",")}}` }));
}
