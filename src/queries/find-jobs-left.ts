import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { textList } from "./list-literals.js";
import { template } from "./template.js";

/** The jobs that a worker serves. */
export interface ServedJobs {
  readonly queues: readonly string[];
  readonly names: readonly string[];
}

/** A job that is not at rest yet. */
export interface JobLeft {
  readonly id: number;
  readonly name: string;
  /** `running` on the worker that was asked about; `due` for anybody. */
  readonly state: "running" | "due";
}

/** What was found: the first few jobs, and how many there are in all. */
export interface JobsLeft {
  readonly count: number;
  readonly first: readonly JobLeft[];
}

/** Every name in its answer is one word: an app's postgres.js may rename columns that have an underscore. */
const text = `
  select id, name, status, count(*) over () as total from {jobs}
  where finished_at is null and blockers = 0
    and queue in (select unnest($queues::text::text[])) and name in (select unnest($names::text::text[]))
    and (
      (status = 'running' and locked_by = $worker::text)
      -- What another worker holds is that worker's affair until its lease has run out.
      -- Nor does anybody wait for the end of a pause.
      or (queue not in (select queue from {controls} where paused_at is not null)
        and available_at <= statement_timestamp() and (lease_until is null or lease_until <= statement_timestamp()))
    )
  order by priority, available_at, id limit $limit::int`;

/**
 * Finds the jobs that are due, and those that one worker runs. Locks nothing.
 *
 * None means, as of one moment: whatever is unfinished waits for its time, for
 * something else, or for another worker.
 */
export function findJobsLeft(
  tables: TableNames,
): (
  executor: Executor,
  of: ServedJobs & { readonly workerId: string; readonly limit: number },
) => Promise<JobsLeft> {
  const prepared = template("find_jobs_left", text, tables);
  return async (executor, { queues, names, workerId, limit }) => {
    const rows = await executor.run(
      prepared.bind({
        queues: textList(queues),
        names: textList(names),
        worker: workerId,
        limit,
      }),
    );
    return {
      count: Number(rows[0]?.["total"] ?? 0),
      first: rows.map(({ id, name, status }) => ({
        id: Number(id),
        name: String(name),
        state: status === "running" ? "running" : "due",
      })),
    };
  };
}
