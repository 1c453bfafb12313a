import type { TableNames } from "../schema/table-names.js";
import { wakeFor } from "./enqueue-parts.js";
import type { Executor } from "./executor.js";
import { integerList } from "./list-literals.js";
import { template } from "./template.js";

/**
 * What became of a job that was to be queued again: `requeued` it is · `open` it is queued or running
 * anyway · `done` it has been done, which is not repeated · `busy` somebody has its row locked ·
 * `missing` there is no such job.
 */
export type RequeueAnswer = "requeued" | "open" | "done" | "busy" | "missing";

const isOver = `finished_at is not null and outcome in ('failed', 'cancelled')`;

const text = `
  with item as materialized (
    select given.id, job.id as job_id
    from unnest($ids::text::bigint[]) as given(id)
    left join lateral (
      select id from {jobs} where id = given.id and ${isOver}
      for no key update skip locked
    ) as job on true
  ),
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
  ) as answer, ${wakeFor("select queue, name, count(*) as jobs from changed group by queue, name")} as woken
  from item left join changed on changed.id = item.job_id`;

/**
 * Makes failed and cancelled jobs queued again, with all their attempts, and
 * wakes workers that wait. Waits for no lock.
 */
export function requeueJobs(
  tables: TableNames,
): (executor: Executor, ids: readonly number[]) => Promise<ReadonlyMap<number, RequeueAnswer>> {
  const prepared = template("requeue_jobs", text, tables);
  return async (executor, ids) => {
    const rows = await executor.run(prepared.bind({ ids: integerList(ids) }));
    return new Map(rows.map((row) => [Number(row["id"]), row["answer"] as RequeueAnswer]));
  };
}
