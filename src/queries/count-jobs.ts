import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { instantOrNull } from "./stored-job.js";
import { template } from "./template.js";

/** How many jobs of one name stand in one queue, by what they wait for. */
export interface JobCounts {
  readonly queue: string;
  readonly name: string;
  /** Queued, and due. */
  readonly due: number;
  /** Since when the longest waiting of them is due; null where none is. */
  readonly oldestDueAt: Date | null;
  /** Queued, and due later: not before `runAt`, or a retry after its backoff. */
  readonly scheduled: number;
  /** Held by a worker. */
  readonly running: number;
  /** Running by the state of their row, but with a lease that has run out: their worker was lost, and no other has recovered them yet. */
  readonly lost: number;
  /** Among the latest so many, of all queues and names, that failed and are not pruned yet. */
  readonly failed: number;
  /** Whether there may be more than these numbers say: a priority of this queue, or all failed jobs, have more rows than are counted. */
  readonly isAtLeast: boolean;
  /** Whether nobody claims from this queue. */
  readonly isPaused: boolean;
}

/**
 * One probe for each queue and priority, then their rows in the order of the
 * ready index: grouping the whole table would read it whole.
 */
const text = `
  with recursive pair as (
    (select queue, priority from {jobs} where finished_at is null and blockers = 0 order by queue, priority limit 1)
    union all
    select next.queue, next.priority
    from pair cross join lateral (
      select queue, priority from {jobs}
      where finished_at is null and blockers = 0 and (queue, priority) > (pair.queue, pair.priority)
      order by queue, priority limit 1
    ) as next
  ),
  counted as (
    select pair.queue, job.name, job.available_at, job.nth,
      case when job.lease_until <= statement_timestamp() then 'lost' when job.lease_until is not null then 'running'
        when job.available_at <= statement_timestamp() then 'due' else 'scheduled' end as kind
    from pair cross join lateral (
      select name, available_at, lease_until, row_number() over (order by available_at, id) as nth
      from (
        select id, name, available_at, lease_until from {jobs}
        where queue = pair.queue and priority = pair.priority and finished_at is null and blockers = 0
        order by available_at, id limit $limit::int
      ) as first
    ) as job
    union all
    (select queue, name, null, 0, 'failed' from {jobs}
      where finished_at is not null and outcome = 'failed' order by finished_at desc, id desc limit $limit::int)
  )
  select to_json(counts)::text as counts
  from (
    select queue, name,
      count(*) filter (where kind = 'due') as due,
      date_part('epoch', min(available_at) filter (where kind = 'due')) * 1000 as oldest_due_at,
      count(*) filter (where kind = 'scheduled') as scheduled,
      count(*) filter (where kind = 'running') as running,
      count(*) filter (where kind = 'lost') as lost,
      count(*) filter (where kind = 'failed') as failed,
      bool_or(max(nth) >= $limit::int) over (partition by queue)
        or sum(count(*) filter (where kind = 'failed')) over () >= $limit::int as is_at_least,
      exists (select from {controls} as control where control.queue = counted.queue and paused_at is not null) as is_paused
    from counted group by queue, name
    order by queue, name
  ) as counts`;

interface CountsJson {
  readonly queue: string;
  readonly name: string;
  readonly due: number;
  readonly oldest_due_at: number | string | null;
  readonly scheduled: number;
  readonly running: number;
  readonly lost: number;
  readonly failed: number;
  readonly is_at_least: boolean;
  readonly is_paused: boolean;
}

/** Counts jobs, looking at no more than `limit` rows of each queue and priority. Locks nothing. */
export function countJobs(
  tables: TableNames,
): (executor: Executor, limit: number) => Promise<readonly JobCounts[]> {
  const prepared = template("count_jobs", text, tables);
  return async (executor, limit) => {
    const rows = await executor.run(prepared.bind({ limit }));
    return rows.map((row) => {
      const counts: CountsJson = JSON.parse(String(row["counts"]));
      const { oldest_due_at, is_at_least, is_paused, ...told } = counts;
      return {
        ...told,
        oldestDueAt: instantOrNull(oldest_due_at),
        isAtLeast: is_at_least,
        isPaused: is_paused,
      };
    });
  };
}
