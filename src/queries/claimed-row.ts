import type { ClaimPair, Place } from "./claim-request.js";
import type { Row } from "./executor.js";

/** A job as a claim hands it to its worker. */
export interface ClaimedJob {
  readonly id: number;
  readonly queue: string;
  readonly name: string;
  readonly priority: number;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly leaseVersion: number;
  /** How often a lease of this job has run out. */
  readonly expiredLeases: number;
  readonly idempotencyKey: string | null;
  /** The stored payload as JSON text. */
  readonly payload: string;
  readonly place: Place;
  /** Milliseconds since 1970. */
  readonly createdMs: number;
  /** Whether its key is recorded as processed: the effect stands already. */
  readonly isProcessed: boolean;
  /** Whether another worker held it and its lease ran out. */
  readonly isRecovered: boolean;
}

/** What a claim found. */
export interface ClaimAnswer {
  readonly jobs: readonly ClaimedJob[];
  /** Jobs whose lease ran out and that are not to run again; they are ended now. */
  readonly ended: readonly EndedJob[];
  /** The server's clock, in microseconds since 1970. */
  readonly nowUs: number;
  /** How long the server worked on it, in milliseconds. */
  readonly tookMs: number;
  /** When the next job becomes due, if asked and if there is one. */
  readonly nextDueUs: number | null;
  /** Whether a sweep that was asked for took place. */
  readonly hasSwept: boolean;
  /** Whether it looked at as many jobs as were wanted: there may be more. */
  readonly isFull: boolean;
  /** The first job that is overdue, needs a free slot, and got none. */
  readonly passedOver: PassedOver | undefined;
  /** Whether a due job that a plain claim sees needs a free slot and got none, for however short a time. */
  readonly leavesDue: boolean;
  /** The queues that it did not look at, since they are paused; undefined where it does not tell. */
  readonly paused: readonly string[] | undefined;
}

/** A job whose lease ran out twice or more may be what kills its workers: they are taken one at a time. */
export const isSuspect = ({ expiredLeases }: ClaimedJob): boolean => expiredLeases >= 2;

/** What a claim took in the order of its pairs; a sweep takes its suspect from anywhere. */
export const takenInOrder = ({ jobs, ended }: ClaimAnswer): readonly ClaimedJob[] =>
  [...jobs, ...ended].filter((job) => !isSuspect(job));

/** A lost job that had no attempt left, or that somebody had asked to cancel. */
export interface EndedJob extends ClaimedJob {
  readonly outcome: "failed" | "cancelled";
}

/** Where a job is that was passed over. */
export interface PassedOver {
  readonly place: Place;
  readonly priority: number;
  /** Whether it lies below its floor or was lost: only sweeps see such jobs. */
  readonly isOnlySwept: boolean;
}

/** The priority of the job that was passed over, if only sweeps see it, or if others do. */
export const passedPriorityOf = (
  { passedOver }: ClaimAnswer,
  isOnlySwept: boolean,
): number | undefined =>
  passedOver?.isOnlySwept === isOnlySwept ? passedOver.priority : undefined;

/** Reads the rows of a statement that claims from `pairs`; rows of its settling parts are passed over. */
export function readClaim(rows: readonly Row[], pairs: readonly ClaimPair[]): ClaimAnswer {
  const jobs: ClaimedJob[] = [];
  const ended: EndedJob[] = [];
  let clock: Row | undefined;
  for (const row of rows) {
    if (row["now_us"] !== null) clock = row;
    // A row with an answer is of the settling part.
    else if (row["answer"] !== null) continue;
    else if (row["status"] === "running") jobs.push(readJob(row));
    else ended.push({ ...readJob(row), outcome: row["status"] as EndedJob["outcome"] });
  }
  if (clock === undefined) throw new TypeError("A claim answered without its clock row.");
  return {
    jobs: jobs.sort(inOrder),
    ended,
    nowUs: Number(clock["now_us"]),
    nextDueUs: clock["next_due_us"] === null ? null : Number(clock["next_due_us"]),
    tookMs: Number(clock["took_ms"]),
    hasSwept: clock["swept"] === true,
    isFull: clock["is_full"] === true,
    passedOver: readPassedOver(clock),
    leavesDue: clock["leaves_due"] === true,
    paused: queuesOf(clock["paused_turns"], pairs),
  };
}

/** Reads the rows of a claim that answers nothing else. */
export const readClaimedJobs = (rows: readonly Row[]): readonly ClaimedJob[] =>
  rows.map(readJob).sort(inOrder);

/** "returning" has no order; jobs are to start in theirs. */
const inOrder = (a: ClaimedJob, b: ClaimedJob): number =>
  a.priority - b.priority || a.place.atUs - b.place.atUs || a.place.id - b.place.id;

/** Turns are counted from 1. */
function queuesOf(turns: unknown, pairs: readonly ClaimPair[]): readonly string[] {
  if (typeof turns !== "string") return [];
  return [...new Set(turns.split(",").map((turn) => pairs[Number(turn) - 1]?.queue ?? ""))];
}

function readPassedOver(clock: Row): PassedOver | undefined {
  const { passed_us: atUs, passed_id: id, passed_priority, passed_only_swept } = clock;
  if (passed_only_swept === null) return undefined;
  return {
    place: { atUs: Number(atUs), id: Number(id) },
    priority: Number(passed_priority),
    isOnlySwept: passed_only_swept === true,
  };
}

function readJob(row: Row): ClaimedJob {
  const id = Number(row["id"]);
  return {
    id,
    queue: String(row["queue"]),
    name: String(row["name"]),
    priority: Number(row["priority"]),
    attempts: Number(row["attempts"]),
    maxAttempts: Number(row["max_attempts"]),
    leaseVersion: Number(row["lease_version"]),
    expiredLeases: Number(row["expired_leases"]),
    idempotencyKey: row["idempotency_key"] as string | null,
    payload: String(row["payload"]),
    place: { atUs: Number(row["available_us"]), id },
    createdMs: Number(row["created_ms"]),
    isProcessed: row["is_processed"] === true,
    isRecovered: row["is_recovered"] === true,
  };
}
