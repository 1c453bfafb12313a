import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { integerList } from "./list-literals.js";
import { template } from "./template.js";

/**
 * Invariant: a lease is moved only by whoever holds it at its version and only
 * while it has not run out. A row that is locked (its own `commit` at work) is
 * not waited for and is not lost: it is answered "busy" and tried again.
 */

/** A lease to renew. */
export interface LeaseToRenew {
  readonly id: number;
  readonly leaseVersion: number;
  readonly leaseMs: number;
}

/** `busy`: locked, try again · `lost`: another's, ended or run out · `cancelled`: renewed, but somebody asks to end it. */
export type RenewAnswer = "busy" | "lost" | "cancelled";

const text = `
  -- Read once: as a parameter the text would be parsed again for each row, 53 s for 10,000 of them.
  with list as materialized (select $ids::text::bigint[] as ids, $lease_ms::text::bigint[] as lease_ms),
  lease as materialized (
    select item.id, item.version, job.id as job_id
    from unnest($ids::text::bigint[], $versions::text::int[]) as item(id, version)
    left join lateral (
      select id from {jobs}
      where id = item.id and lease_version = item.version and status = 'running'
        and lease_until > statement_timestamp()
      for no key update skip locked
    ) as job on true
  ),
  renewed as (
    update {jobs} as job
    set lease_until = statement_timestamp() + interval '1 millisecond'
      * ((select lease_ms from list))[array_position((select ids from list), job.id)]
    where id = any(array(select job_id from lease where job_id is not null))
    returning id, cancel_requested_at
  )
  select id, 'cancelled' as answer from renewed where cancel_requested_at is not null
  union all
  -- A scalar subquery with a limit: "exists" may be planned as a hash of the whole table.
  select lease.id, coalesce((
    select 'busy' from {jobs} as job
    where job.id = lease.id and job.lease_version = lease.version and job.status = 'running'
      and job.lease_until > statement_timestamp()
    limit 1
  ), 'lost')
  from lease where job_id is null`;

/** Renews leases in one statement; the answer holds only those that were not simply renewed. */
export function renewLeases(
  tables: TableNames,
): (
  executor: Executor,
  leases: readonly LeaseToRenew[],
) => Promise<ReadonlyMap<number, RenewAnswer>> {
  const prepared = template("renew", text, tables);
  return async (executor, leases) => {
    const rows = await executor.run(
      prepared.bind({
        ids: integerList(leases.map((lease) => lease.id)),
        versions: integerList(leases.map((lease) => lease.leaseVersion)),
        lease_ms: integerList(leases.map((lease) => Math.ceil(lease.leaseMs))),
      }),
    );
    return new Map(rows.map((row) => [Number(row["id"]), row["answer"] as RenewAnswer]));
  };
}
