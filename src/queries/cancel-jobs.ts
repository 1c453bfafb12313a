import type { TableNames } from "../schema/table-names.js";
import { type JobChange, jobChange, lockedItems, ownTransaction } from "./change-jobs.js";

/**
 * What became of a job that was to be cancelled: `cancelled` it was waiting, and has ended ·
 * `requested` it is running, and its worker is asked to end it · `ended` it had ended before ·
 * `busy` somebody has its row locked · `missing` there is no such job.
 */
export type CancelAnswer = "cancelled" | "requested" | "ended" | "busy" | "missing";

/** Nobody may write for it any more: it waits, or its worker has lost it. */
const isFree = `(job.status = 'queued' or job.lease_until <= statement_timestamp())`;

const text = `
  with ${lockedItems("finished_at is null")},
  changed as (
    update {jobs} as job
    set cancel_requested_at = coalesce(job.cancel_requested_at, statement_timestamp()),
      status = case when ${isFree} then 'cancelled' else job.status end,
      outcome = case when ${isFree} then 'cancelled' end,
      finished_at = case when ${isFree} then statement_timestamp() end,
      lease_until = case when ${isFree} then null else job.lease_until end,
      -- A lost lease is ended as a recovery ends it.
      lease_version = job.lease_version + (${isFree} and job.status = 'running')::int
    where id = any(array(select job_id from item where job_id is not null))
    returning id, status
  )
  select item.id::text as id, coalesce(
    case changed.status when 'cancelled' then 'cancelled' when 'running' then 'requested' end,
    (select case when finished_at is null then 'busy' else 'ended' end from {jobs} where id = item.id limit 1),
    'missing'
  ) as answer, ${ownTransaction}
  from item left join changed on changed.id = item.job_id`;

/**
 * Cancels jobs that wait, and asks for the end of those that run.
 *
 * A cancelled row stays locked until the caller's transaction ends; so does
 * a running job's, which its worker then cannot renew. Waits for no lock.
 */
export const cancelJobs = (tables: TableNames): JobChange<CancelAnswer> =>
  jobChange("cancel_jobs", text, tables);
