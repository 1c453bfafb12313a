import { boundedHistory } from "./bounded-history.js";
import { type ClaimRequest, pausedTurns, unpausedPairs } from "./claim-request.js";

/**
 * Invariant: of any number of workers at most one holds a job at a given
 * lease version. The row lock lasts for this statement only; from then on the
 * lease decides who may run the job, and the version who may settle it.
 *
 * A claim changes no indexed value of a job that stays open (ADR 0009), so it
 * leaves no dead index entries where rows find room in their pages; and it does
 * not look below its floor, so those that settling leaves are not walked again (ADR 0010).
 */

/** Where the index is read. */
const open = (of: string): string =>
  `queue = ${of}.queue and priority = ${of}.priority and finished_at is null and blockers = 0`;

const isServed = `(name in (select unnest($names::text::text[]))) is true`;

/** What makes a row claimable at all, shared by every part that looks for one. */
const claimable = (of: string): string => `${open(of)} and ${isServed}`;

const taken = `
  lease_version = lease_version + 1, locked_by = $worker,
  started_at = statement_timestamp()`;

/** @param byName The leases of single names, as jsonb. */
const leaseEndFrom = (byName: string): string => `
  statement_timestamp() + interval '1 millisecond' * coalesce((${byName} ->> name)::bigint, $lease_ms::bigint)`;

/** What a claim does to a job that starts. */
export const startedWith = (leasesByName: string): string => `
  status = 'running', attempts = attempts + 1, lease_until = ${leaseEndFrom(leasesByName)}, ${taken}`;

const lease = `lease as materialized (select $leases::text::jsonb as by_name)`;
const leasesByName = "(select by_name from lease)";
const leaseEnd = leaseEndFrom(leasesByName);
const started = startedWith(leasesByName);

export const claimedColumns = `
  id, queue, name, priority, status, attempts, max_attempts, lease_version, expired_leases, idempotency_key,
  payload::text as payload,
  -- date_part, not extract: that computes in numeric, which took 4 % of the statement's time.
  -- Rounded to microseconds a double is exact until the year 2106, and floors are in the past.
  -- Not before 1970, so that '-infinity', which has no number, stops nobody.
  round(date_part('epoch', greatest(available_at, 'epoch')) * 1000000)::bigint as available_us,
  date_part('epoch', created_at) * 1000 as created_ms,
  -- Not "exists": that may be planned as a hash of the whole table. The limit keeps it a probe.
  case when idempotency_key is not null then (
    select true from {processedKeys} as processed
    where processed.name = job.name and processed.idempotency_key = job.idempotency_key
      and (processed.expires_at is null or processed.expires_at > statement_timestamp())
    limit 1
  ) end as is_processed`;

/** So many jobs that are due later are looked at for one that this worker serves. */
const LATER = 100;

const later = `
  select available_at, ${isServed} as is_served from {jobs}
  where ${open("request")} and available_at > statement_timestamp()
    -- Nobody sleeps for longer; and 'infinity', to which somebody may have put a job off, has no number.
    and available_at < statement_timestamp() + interval '1 day'
  order by available_at`;

const nextDue = `
  -- Under a backlog the next claim follows at once, unless this one was the last of it.
  case when not $has_backlog::boolean or (select count(*) from ranked) < $wanted::int then (
    select round(date_part('epoch', min(next.available_at)) * 1000000)::bigint
    from request cross join lateral (
      select coalesce(
        (select available_at from (${later} limit ${LATER}) as later where is_served limit 1),
        -- Others' jobs only: whatever lies behind them is looked at then.
        (select available_at from (${later} offset ${LATER - 1} limit 1) as later)
      ) as available_at
    ) as next
  ) end`;

const timeColumns = `
  round(date_part('epoch', statement_timestamp()) * 1000000)::bigint as now_us, ${nextDue} as next_due_us`;

/** Until it has been due for this long, a job that needs a free slot is not reported as passed over. */
const patience = "interval '500 milliseconds'";

/** The first job that was passed over, those that only a sweep sees before the others. */
const passedOver = `
  select available_at, id, priority, only_swept from ranked
  where not may_wait and nth > room and available_at < statement_timestamp() - ${patience}
  order by only_swept desc, nth limit 1`;

const lookColumns = `
  -- By the server's clock: the network's share is no work of the server.
  date_part('epoch', clock_timestamp() - statement_timestamp()) * 1000 as took_ms,
  (select count(*) from ranked) >= $wanted::int as is_full,
  (select round(date_part('epoch', greatest(available_at, 'epoch')) * 1000000)::bigint from passed) as passed_us,
  (select id from passed) as passed_id, (select priority from passed) as passed_priority,
  (select only_swept from passed) as passed_only_swept,
  exists (select from ranked where not may_wait and nth > room and not only_swept) as leaves_due,
  ${pausedTurns} as paused_turns`;

/**
 * From so many jobs on, a claim under backlog sets a column of the ready index to what it is. Else, before a full page of that
 * index is split, PostgreSQL looks for earlier versions of the rows to delete; but those that it finds are of
 * this very statement, and stay: a tenth of the server's time, where rows find no room in their pages (ADR 0009).
 */
const MANY = 100;
const splitsAtOnce = ", priority = priority";

/** The jobs of one pair of a request that are due above its floor and that nobody holds, but for suspects. */
export const aboveFloor = (columns: string): string => `
      select ${columns}
      from {jobs}
      where ${claimable("request")}
        and (available_at, id) > (request.floor_at, request.floor_id)
        and available_at <= statement_timestamp()
        and lease_until is null
        and attempts < max_attempts
        and expired_leases < 2
      order by available_at, id
      limit $seen::int
      -- Without "skip locked" two workers would wait for each other's rows.
      for no key update skip locked`;

/** The common table expressions of a plain claim; its results are `claim` and `clock`. */
const plainParts = (isOfMany: boolean): string => `
  ${unpausedPairs}, ${lease},
  due as materialized (
    select job.*
    from (select * from request order by turn) as request
    cross join lateral (
      ${aboveFloor("id, available_at, priority, attempts = 0 and max_attempts > 1 as may_wait")}
    ) as job
    limit $seen::int
  ),
  ranked as materialized (
    select id, available_at, priority, may_wait, row_number() over () as nth, $free::int as room, false as only_swept
    from due
  ),
  -- A job that is only fetched ahead would lose an attempt in somebody else's crash:
  -- beyond the free slots, only jobs that can spare it.
  chosen as materialized (select id from ranked where nth <= $wanted::int and (may_wait or nth <= room)),
  passed as materialized (${passedOver}),
  claimed as (
    update {jobs} as job
    set ${started}${isOfMany ? splitsAtOnce : ""}
    -- An array, not "in (select … limit …)": that may be run again for each row and take more.
    where id = any(array(select id from chosen))
    returning ${claimedColumns}, false as is_recovered
  ),
  claim as (select * from claimed),
  clock as (select ${timeColumns}, false as swept, ${lookColumns})`;

const sweptRow = `
  (available_at, id) > (bound.from_at, bound.from_id) and (available_at, id) <= (bound.to_at, bound.to_id)
  and available_at <= statement_timestamp()
  and (lease_until is null or ((select is_on from sweep) and lease_until <= statement_timestamp()))`;

/** Whether a lost job may have another attempt; else it is ended, not run, and needs no slot. */
const goesOn = `attempts < max_attempts and cancel_requested_at is null`;

/** A job whose lease ran out twice or more may be what kills its workers. */
const suspicion = `expired_leases + (lease_until is not null)::int`;

/** The same for a sweep, which starts lower and also takes what others have lost. */
const sweepParts = `
  ${unpausedPairs}, ${lease},
  sweep as materialized (
    select not $exclusive::boolean or pg_try_advisory_xact_lock($sweep_lock::bigint) as is_on
  ),
  reach as materialized (
    select coalesce(statement_timestamp() - $reach_ms::bigint * interval '1 millisecond', '-infinity') as from_at
    from sweep where is_on
  ),
  -- What lies below the floors comes first, for all queues of a priority: these jobs were to start before.
  -- So may those of queues that have none yet. Then what lies above: a backlog may be older than the sweep's reach.
  bound as materialized (
    select queue, priority, turn, true as is_below, true as is_early,
      reach.from_at, 0 as from_id, floor_at as to_at, floor_id as to_id
    from request join reach on reach.from_at < floor_at
    union all
    -- Where another one sweeps, this is a plain claim, which takes the queues in their turns.
    select queue, priority, turn, false, floor_at = '-infinity' and is_on, floor_at, floor_id, 'infinity', 9223372036854775807
    from request cross join sweep
  ),
  due as materialized (
    select job.*, bound.is_below
    from (select * from bound order by priority, is_early desc, turn) as bound
    cross join lateral (
      select id, available_at, priority, (attempts = 0 and max_attempts > 1 and lease_until is null) or not (${goesOn}) as may_wait,
        lease_until is not null or attempts >= max_attempts as is_lost
      from {jobs}
      where ${claimable("bound")} and ${sweptRow} and ${suspicion} < 2
      order by available_at, id
      limit $seen::int
      for no key update skip locked
    ) as job
    limit $seen::int
  ),
  suspect as materialized (
    select job.id, job.is_lost
    -- Below the floors only: with no suspect there, the whole backlog above them would be walked in vain.
    from (select * from bound where is_below order by turn) as bound
    cross join lateral (
      select id, lease_until is not null or attempts >= max_attempts as is_lost
      from {jobs}
      where ${claimable("bound")} and ${sweptRow} and ${suspicion} >= 2
      order by available_at, id
      limit 1
      for no key update skip locked
    ) as job
    -- The room counts only while sweeping: elsewhere a suspect is passed over.
    limit (select case when is_on then $suspects::int else 0 end from sweep)
  ),
  -- The suspect takes one of the slots.
  ranked as materialized (
    select id, available_at, priority, may_wait, is_lost, is_below or is_lost as only_swept,
      row_number() over () + (select count(*) from suspect) as nth, $free::int as room
    from due
  ),
  chosen as materialized (
    select id, is_lost from ranked where nth <= $wanted::int and (may_wait or nth <= room)
    union all
    select id, is_lost from suspect
  ),
  passed as materialized (${passedOver}),
  claimed as (
    update {jobs} as job
    set ${started}
    where id = any(array(select id from chosen where not is_lost))
    returning ${claimedColumns}, false as is_recovered
  ),
  -- Recovery is the claim: there is no reaper that could die. A job without an attempt left ends here, and one that is to be cancelled.
  recovered as (
    update {jobs} as job
    set status = case when ${goesOn} then 'running' when cancel_requested_at is null then 'failed' else 'cancelled' end,
      outcome = case when ${goesOn} then null when cancel_requested_at is null then 'failed' else 'cancelled' end,
      finished_at = case when ${goesOn} then null else statement_timestamp() end,
      lease_until = case when ${goesOn} then ${leaseEnd} end,
      attempts = attempts + (${goesOn})::int,
      expired_leases = least(expired_leases + (lease_until is not null)::int, 32767),
      lease_version = lease_version + 1, locked_by = $worker, started_at = statement_timestamp(),
      last_error = 'LEASE_EXPIRED: the worker that held this job was lost',
      error_history = ${boundedHistory}
        || jsonb_build_object('attempt', attempts, 'at', statement_timestamp(), 'code', 'LEASE_EXPIRED', 'name', 'AttemptError',
          'message', 'The lease of ' || coalesce(locked_by, 'an unknown worker') || ' ran out.', 'stack', null)
    where id = any(array(select id from chosen where is_lost))
    returning ${claimedColumns}, true as is_recovered
  ),
  claim as (select * from claimed union all select * from recovered),
  clock as (select ${timeColumns}, (select is_on from sweep) as swept, ${lookColumns})`;

/** The kinds of claims, each with a text of its own. */
export type ClaimKind = "claim" | "claim_many" | "sweep";

/** Which kind a request is of. */
export function claimKind({ sweep, free, ahead, hasBacklog }: ClaimRequest): ClaimKind {
  if (sweep !== undefined) return "sweep";
  // Without a backlog it finds few, however many it has room for.
  return hasBacklog && free + ahead >= MANY ? "claim_many" : "claim";
}

/** The parts of a statement that claim, for a statement of its own or one that settles too. */
export function claimParts(kind: ClaimKind): string {
  return kind === "sweep" ? sweepParts : plainParts(kind === "claim_many");
}
