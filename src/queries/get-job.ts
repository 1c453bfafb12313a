import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import {
  readStoredJobDetails,
  type StoredJobDetails,
  storedJobColumns,
  storedJobDetails,
} from "./stored-job.js";
import { template } from "./template.js";

const text = `
  select to_json(row)::text as job
  from (select ${storedJobColumns}, ${storedJobDetails} from {jobs} where id = $id::bigint) as row`;

/** Reads one job with all that is stored of it. Locks nothing. */
export function getJob(
  tables: TableNames,
): (executor: Executor, id: number) => Promise<StoredJobDetails | undefined> {
  const prepared = template("get_job", text, tables);
  return async (executor, id) => {
    const [row] = await executor.run(prepared.bind({ id }));
    return row === undefined ? undefined : readStoredJobDetails(row);
  };
}
