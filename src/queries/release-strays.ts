import type { TableNames } from "../schema/table-names.js";
import { type ClaimPair, pairValues, requestedPairs } from "./claim-request.js";
import type { Executor } from "./executor.js";
import { integerList } from "./list-literals.js";
import { template } from "./template.js";

/** So many rows of each queue and priority are looked at beyond what this worker has claimed: others may hold them. */
const REACH = 2_000;

const text = `
  with ${requestedPairs},
  held as materialized (select unnest($held::text::bigint[]) as id),
  stray as materialized (
    select near.id
    from request cross join lateral (
      select id, lease_version, locked_by, status from {jobs}
      where queue = request.queue and priority = request.priority and finished_at is null and blockers = 0
        and (available_at, id) > (request.floor_at, request.floor_id)
      order by available_at, id limit $reach::int
    ) as near
    where near.status = 'running' and near.locked_by = $worker
      and near.id not in (select id from held)
  ),
  locked as materialized (
    select job.id from stray cross join lateral (
      select id from {jobs}
      where id = stray.id and status = 'running' and locked_by = $worker and lease_until > statement_timestamp()
      for no key update skip locked
    ) as job
  )
  update {jobs} as job
  -- A job with a cancel request is cancelled, not queued, as in an ordinary release.
  set status = case when cancel_requested_at is null then 'queued' else 'cancelled' end,
    outcome = case when cancel_requested_at is not null then 'cancelled' end,
    finished_at = case when cancel_requested_at is not null then statement_timestamp() end,
    attempts = attempts - 1, lease_until = null, locked_by = null
  where id = any(array(select id from locked))
  returning id`;

/** What may have been claimed without this worker having heard of it. */
export interface StrayRequest {
  readonly workerId: string;
  /** The pairs of the claim whose answer was lost. */
  readonly pairs: readonly ClaimPair[];
  /** How many jobs such claims asked for. */
  readonly asked: number;
  /** The jobs that this worker does hold. */
  readonly held: readonly number[];
}

/**
 * Gives back, attempt included, what carries this worker's id and is not held
 * by it: jobs of a claim whose answer was lost. Cancels those whose end was asked for.
 * Their versions are unknown here, but the worker's id is this one's alone, and
 * nobody has raised them since.
 *
 * @returns How many were given back.
 */
export function releaseStrays(
  tables: TableNames,
): (executor: Executor, request: StrayRequest) => Promise<number> {
  const prepared = template("release_strays", text, tables);
  return async (executor, { workerId, pairs, asked, held }) => {
    const rows = await executor.run(
      prepared.bind({
        ...pairValues(pairs),
        worker: workerId,
        held: integerList(held),
        reach: REACH + asked + held.length,
      }),
    );
    return rows.length;
  };
}
