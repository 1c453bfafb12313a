import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import type { ServedJobs } from "./find-jobs-left.js";
import { integerList, textList } from "./list-literals.js";
import { template } from "./template.js";

const text = `
  with later as materialized (
    select id, available_at from {jobs}
    where finished_at is null and blockers = 0 and status = 'queued'
      -- 'infinity' is a job that somebody has put off for good.
      and available_at > statement_timestamp() and available_at < 'infinity'
      and queue in (select unnest($queues::text::text[])) and name in (select unnest($names::text::text[]))
      -- Nobody runs it before the pause ends, and by then it would have lost its time.
      and queue not in (select queue from {controls} where paused_at is not null)
      -- By version: a job that has been claimed since may have been put off, not retried.
      and ($ids::text is null or (id, lease_version) in (
        select * from unnest($ids::text::bigint[], $versions::text::int[])
      ))
    for no key update skip locked
  ),
  -- They keep their order: else those that were to start last could start first.
  ranked as materialized (
    select id, row_number() over (order by available_at desc, id desc) as nth from later
  )
  update {jobs} as job
  set available_at = statement_timestamp() - ranked.nth * interval '1 microsecond'
  from ranked where job.id = ranked.id
  returning job.id`;

/** A job whose attempt under that lease version has errored. */
export interface Retry {
  readonly id: number;
  readonly leaseVersion: number;
}

/**
 * Makes jobs due now that wait for their time: all that are served, or those of `retries`
 * that nobody has claimed since.
 *
 * A row that somebody has locked is passed over and waits on, and so is a paused queue. For tests: it takes
 * for granted that they are few.
 *
 * @returns How many there were.
 */
export function makeDue(
  tables: TableNames,
): (
  executor: Executor,
  of: ServedJobs & { readonly retries: readonly Retry[] | null },
) => Promise<number> {
  const prepared = template("make_due", text, tables);
  return async (executor, { queues, names, retries }) => {
    const rows = await executor.run(
      prepared.bind({
        queues: textList(queues),
        names: textList(names),
        ids: retries && integerList(retries.map(({ id }) => id)),
        versions: retries && integerList(retries.map(({ leaseVersion }) => leaseVersion)),
      }),
    );
    return rows.length;
  };
}
