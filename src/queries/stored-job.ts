import type { JobState } from "../schema/job-states.js";
import type { StoredError } from "../schema/jobs.js";
import type { Row } from "./executor.js";

/** A job as it stands in its row, without what may be large. */
export interface StoredJob {
  readonly id: number;
  readonly name: string;
  readonly queue: string;
  readonly status: JobState;
  /** 0 (first) to 9 (last). */
  readonly priority: number;
  /** Attempts that have begun since the job was enqueued or requeued. */
  readonly attempts: number;
  readonly maxAttempts: number;
  /** How often a lease of it ran out since then: a job that ends its workers shows here. */
  readonly expiredLeases: number;
  readonly idempotencyKey: string | null;
  readonly createdAt: Date;
  /** When it is due, or was. */
  readonly availableAt: Date;
  /** When its latest attempt began. */
  readonly startedAt: Date | null;
  /** When it became done, failed or cancelled. */
  readonly finishedAt: Date | null;
  /** The worker that holds it, as `host:pid:random`; null unless running, but for a job that was ended after its worker was lost. */
  readonly lockedBy: string | null;
  /** Until when that worker may run it unless it renews; null unless running. */
  readonly leaseUntil: Date | null;
  /** Since when its end is asked for. */
  readonly cancelRequestedAt: Date | null;
  /** The latest error in one line. */
  readonly lastError: string | null;
}

/** A job with all that is stored of it. */
export interface StoredJobDetails extends StoredJob {
  /** As it is stored: not parsed by its schema. */
  readonly payload: unknown;
  /** As it is stored; null unless the job is done and its definition has a result. */
  readonly result: unknown;
  /** The latest ten errors, the oldest first; those from before a requeue among them. */
  readonly errors: readonly StoredError[];
}

const TIMES = [
  "created_at",
  "available_at",
  "started_at",
  "finished_at",
  "lease_until",
  "cancel_requested_at",
];

/** The columns of a {@link StoredJob}, for a select list. */
export const storedJobColumns = `
  id, name, queue, status, priority, attempts, max_attempts, expired_leases, idempotency_key, locked_by, last_error,
  ${TIMES.map((column) => `date_part('epoch', ${column}) * 1000 as ${column}`).join(", ")}`;

/** What {@link StoredJobDetails} has beside them. */
export const storedJobDetails = `
  payload, result, case when jsonb_typeof(error_history) = 'array' then error_history end as errors`;

/** What `to_json(row)::text` makes of these columns: an app's driver may parse what it knows, and rename what has an underscore. */
interface JobJson {
  readonly id: number;
  readonly name: string;
  readonly queue: string;
  readonly status: JobState;
  readonly priority: number;
  readonly attempts: number;
  readonly max_attempts: number;
  readonly expired_leases: number;
  readonly idempotency_key: string | null;
  readonly locked_by: string | null;
  readonly last_error: string | null;
  /** Times are milliseconds since 1970; JSON has no number for an infinite one, so that is a string. */
  readonly created_at: number | string;
  readonly available_at: number | string;
  readonly started_at: number | string | null;
  readonly finished_at: number | string | null;
  readonly lease_until: number | string | null;
  readonly cancel_requested_at: number | string | null;
}

interface DetailsJson extends JobJson {
  readonly payload: unknown;
  readonly result: unknown;
  readonly errors: readonly StoredError[] | null;
}

/** Reads a row whose column `job` is such a text of {@link storedJobColumns}. */
export const readStoredJob = (row: Row): StoredJob => jobOf(JSON.parse(String(row["job"])));

/** Reads a row that has {@link storedJobDetails} too. */
export function readStoredJobDetails(row: Row): StoredJobDetails {
  const json: DetailsJson = JSON.parse(String(row["job"]));
  const { payload, result, errors } = json;
  return { ...jobOf(json), payload, result, errors: errors ?? [] };
}

function jobOf(json: JobJson): StoredJob {
  return {
    id: json.id,
    name: json.name,
    queue: json.queue,
    status: json.status,
    priority: json.priority,
    attempts: json.attempts,
    maxAttempts: json.max_attempts,
    expiredLeases: json.expired_leases,
    idempotencyKey: json.idempotency_key,
    createdAt: instant(json.created_at),
    availableAt: instant(json.available_at),
    startedAt: instantOrNull(json.started_at),
    finishedAt: instantOrNull(json.finished_at),
    lockedBy: json.locked_by,
    leaseUntil: instantOrNull(json.lease_until),
    cancelRequestedAt: instantOrNull(json.cancel_requested_at),
    lastError: json.last_error,
  };
}

/** The furthest a Date reaches, in milliseconds; PostgreSQL goes on, to infinity. */
const MAX_DATE_MS = 8.64e15;

/** Reads milliseconds since 1970 as {@link TIMES} gives them. */
export const instant = (at: number | string): Date =>
  new Date(Math.max(-MAX_DATE_MS, Math.min(Number(at), MAX_DATE_MS)));

/** The same of a time that may not be there. */
export const instantOrNull = (at: number | string | null): Date | null =>
  at === null ? null : instant(at);
