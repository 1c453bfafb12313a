import type pg from "pg";

/** How many accounts of each side there are: enough that jobs seldom meet at one. */
export const ACCOUNTS = 256;

/**
 * The tables by which a run is judged. None has a unique constraint on what
 * must be unique: a double is to be seen, not to be prevented.
 */
const TABLES = `
  create schema ledger;
  create table ledger.orders (no bigint not null, job_id bigint not null, who text not null);
  create table ledger.effects (
    no bigint not null, job_id bigint not null, attempt int not null, version int not null,
    who text not null, xid xid8 not null default pg_current_xact_id());
  create table ledger.outside (like ledger.effects including defaults);
  create index on ledger.outside (job_id);
  create table ledger.accounts (id int primary key, side text not null, balance bigint not null);
  insert into ledger.accounts select id, 'a', 0 from generate_series(1, ${ACCOUNTS}) as id;
  insert into ledger.accounts select id + ${ACCOUNTS}, 'b', 0 from generate_series(1, ${ACCOUNTS}) as id;
  create table ledger.audit (
    seq bigint generated always as identity primary key, at timestamptz not null, statement_at timestamptz not null,
    xid xid8 not null, who text not null, app text not null, op text not null,
    job_id bigint not null, no bigint not null, name text not null, old jsonb, new jsonb)`;

/** Keeps every version of every job's row, with the session that wrote it. */
const AUDIT = `
  create function ledger.facts(job public.queue_jobs) returns jsonb language sql immutable as $$
    select jsonb_build_object('status', job.status, 'version', job.lease_version, 'attempts', job.attempts,
      'maxAttempts', job.max_attempts, 'priority', job.priority,
      'dueMs', extract(epoch from job.available_at) * 1000, 'leaseMs', extract(epoch from job.lease_until) * 1000,
      'lockedBy', job.locked_by, 'expired', job.expired_leases, 'isUnwanted', job.cancel_requested_at is not null)
  $$;
  create function ledger.watch() returns trigger language plpgsql security definer set search_path = '' as $$
  declare
    row public.queue_jobs := coalesce(new, old);
  begin
    insert into ledger.audit (at, statement_at, xid, who, app, op, job_id, no, name, old, new)
    values (pg_catalog.clock_timestamp(), pg_catalog.statement_timestamp(), pg_catalog.pg_current_xact_id(),
      coalesce(pg_catalog.current_setting('crash.who', true), 'nobody'),
      pg_catalog.current_setting('application_name'), tg_op, row.id, (row.payload ->> 'no')::bigint, row.name,
      case when tg_op <> 'INSERT' then ledger.facts(old) end, case when tg_op <> 'DELETE' then ledger.facts(new) end);
    return null;
  end $$;
  create trigger watch after insert or update or delete on public.queue_jobs
    for each row execute function ledger.watch()`;

/** Creates the ledger beside the queue's tables. */
export async function createLedger(client: pg.Client): Promise<void> {
  await client.query(TABLES);
  await client.query(AUDIT);
}
