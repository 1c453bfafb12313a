import type { TableNames } from "../schema/table-names.js";
import { type JobChange, jobChange, lockedItems, ownTransaction } from "./change-jobs.js";
import { wakeFor } from "./enqueue-parts.js";

/**
 * What became of a job that was to start at once: `due` it is, as soon as a worker has room ·
 * `running` it runs already · `ended` it has ended · `busy` somebody has its row locked ·
 * `missing` there is no such job.
 */
export type RunNowAnswer = "due" | "running" | "ended" | "busy" | "missing";

const text = `
  with ${lockedItems("finished_at is null and status = 'queued'")},
  changed as (
    update {jobs} as job set available_at = least(available_at, statement_timestamp())
    where id = any(array(select job_id from item where job_id is not null))
    returning id, queue, name
  )
  select item.id::text as id, coalesce(
    case when changed.id is not null then 'due' end,
    (select case when finished_at is not null then 'ended' when status = 'running' then 'running' else 'busy' end
      from {jobs} where id = item.id limit 1),
    'missing'
  ) as answer, ${wakeFor("select queue, name, count(*) as jobs from changed group by queue, name")} as woken,
    ${ownTransaction}
  from item left join changed on changed.id = item.job_id`;

/** Makes jobs due that wait for their time, and wakes workers that wait. Waits for no lock. */
export const runJobsNow = (tables: TableNames): JobChange<RunNowAnswer> =>
  jobChange("run_jobs_now", text, tables);
