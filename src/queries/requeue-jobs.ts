import type { TableNames } from "../schema/table-names.js";
import { type JobChange, jobChange, lockedItems, ownTransaction } from "./change-jobs.js";
import { wakeFor } from "./enqueue-parts.js";

/**
 * What became of a job that was to be queued again: `requeued` it is · `open` it is queued or running
 * anyway · `done` it has been done, which is not repeated · `busy` somebody has its row locked ·
 * `missing` there is no such job.
 */
export type RequeueAnswer = "requeued" | "open" | "done" | "busy" | "missing";

const isOver = `finished_at is not null and outcome in ('failed', 'cancelled')`;

const text = `
  with ${lockedItems(isOver)},
  changed as (
    update {jobs} as job
    -- The lease version stays: the next claim raises it, and nobody writes for a job that is not running.
    -- So do the errors: what happened before is part of the job's story.
    set status = 'queued', outcome = null, finished_at = null, available_at = statement_timestamp(),
      attempts = 0, expired_leases = 0, cancel_requested_at = null, started_at = null, locked_by = null
    where id = any(array(select job_id from item where job_id is not null))
    returning id, queue, name
  )
  select item.id::text as id, coalesce(
    case when changed.id is not null then 'requeued' end,
    (select case when outcome is null then 'open' when outcome = 'done' then 'done' else 'busy' end
      from {jobs} where id = item.id limit 1),
    'missing'
  ) as answer, ${wakeFor("select queue, name, count(*) as jobs from changed group by queue, name")} as woken,
    ${ownTransaction}
  from item left join changed on changed.id = item.job_id`;

/**
 * Makes failed and cancelled jobs queued again, with all their attempts, and
 * wakes workers that wait. Waits for no lock.
 */
export const requeueJobs = (tables: TableNames): JobChange<RequeueAnswer> =>
  jobChange("requeue_jobs", text, tables);
