import type { JobState } from "../schema/job-states.js";

/** A job to insert: checked, complete, and text where JSON is meant. */
export interface NewJob {
  readonly name: string;
  readonly queue: string;
  readonly priority: number;
  readonly maxAttempts: number;
  /** ISO 8601; null to start `delayMs` after the database's now. */
  readonly runAt: string | null;
  readonly delayMs: number;
  readonly idempotencyKey: string | null;
  /** JSON text. */
  readonly payload: string;
  /** JSON text of what the caller gave, where there is a key and it differs from `payload`: the input hash is taken of it. */
  readonly input: string | null;
}

/** What an insert tells of one job: itself, or the one that had its key before. */
export interface InsertedJob {
  readonly id: number;
  readonly created: boolean;
  readonly status: JobState;
  /** The key is taken by a job with another input. */
  readonly conflict: boolean;
}

/** A worker not seen for longer is taken for dead: waking it would waste the notification. */
export const FRESH = "seen_at > statement_timestamp() - interval '30 seconds'";

/**
 * Wakes one worker more than there are jobs, of each queue and name: one probe for each
 * of these, whatever the number of jobs, and none when nobody waits.
 *
 * `lines` has the columns queue, name and jobs, and what `condition` names as its own.
 */
export const wakeFor = (lines: string, condition = ""): string =>
  `(select count(pg_notify('{channel}', worker.id)) from (
    select distinct chosen.id from (${lines}) line cross join lateral (
      select id from {workers}
      where waiting and ${FRESH}
        and coalesce(line.queue = any(queues), true) and line.name = any(names) ${condition}
      order by random() limit line.jobs + 1
    ) chosen
  ) worker)`;

/** The columns that each insert writes, so that no way in forgets an option. */
export const COLUMNS = "queue, name, payload, priority, max_attempts, available_at, created_at";

/** `now()` is when the caller's transaction began, which may be long ago. */
export const dueAt = (runAt: string, delayMs: string): string =>
  `coalesce(${runAt}::timestamptz, statement_timestamp() + ${delayMs} * interval '1 millisecond')`;

/** A worker that polls before the job is due need not be woken; polls are up to a fifth more apart than told. */
export const tooLate = (due: string): string =>
  `and ${due} <= statement_timestamp() + poll_interval_ms * interval '1200 microseconds'`;

/** The canonical form of the input decides: key order and white space do not. */
export const hashOf = (json: string): string =>
  // Qualified: an app's own convert_to(text, text) would fit better, wherever it is.
  `pg_catalog.sha256(pg_catalog.convert_to((${json})::text, 'UTF8'))`;

/** Who has a key: the job, and whoever processed it, unless that time is over. */
export function known(name: string, key: string): string {
  const match = `where name = ${name} and idempotency_key = ${key}`;
  return `select id, status, input_hash from {jobs} ${match}
    union all select job_id, 'done', input_hash from {processedKeys} ${match}
      and coalesce(expires_at > statement_timestamp(), true)`;
}

/** Leaves the first job of a key as it is: "do update" would lock its row until the caller's transaction ends. */
export const KEEP_FIRST =
  "on conflict (name, idempotency_key) where idempotency_key is not null do nothing";
