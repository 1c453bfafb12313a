import type { EventAttempt, EventError, QueueEvent } from "../instrumentation/instrumentation.js";
import type { JobLeft } from "../queries/find-jobs-left.js";
import type { Retry } from "../queries/make-due.js";

/** A job that ended, and its attempt that did. */
export interface DrainedJob<N extends string = string> {
  readonly id: number;
  readonly name: N;
  readonly queue: string;
  /** The number of that attempt, counted from 1. */
  readonly attempt: number;
}

/** The same of one that errored. */
export interface ErroredJob<N extends string = string> extends DrainedJob<N> {
  readonly error: EventError;
}

/** What {@link drainJobs} did: each job once, as it stood at the end, in the order of their ends. */
export interface DrainReport<N extends string = string> {
  readonly done: readonly DrainedJob<N>[];
  readonly failed: readonly ErroredJob<N>[];
  /** Their last attempt errored, and the next one waits for its time. */
  readonly retrying: readonly (ErroredJob<N> & { readonly retryInMs: number })[];
  readonly snoozed: readonly (DrainedJob<N> & { readonly delayMs: number })[];
  readonly cancelled: readonly DrainedJob<N>[];
  /** Their attempt counted for nothing: another one took the job meanwhile, or its row is gone. */
  readonly lost: readonly DrainedJob<N>[];
  /** Each attempt that errored, whatever became of its job, and what a handler threw after its commit. */
  readonly errors: readonly ErroredJob<N>[];
}

/** Follows a worker by its events. */
export interface DrainLog {
  event(event: QueueEvent): void;
  /** How many jobs the worker has claimed so far. */
  claims(): number;
  /** Those that it holds, as far as it has told. */
  held(): readonly JobLeft[];
  /** Whether there are none. */
  isQuiet(): boolean;
  /** The jobs that wait for another attempt, and that no earlier call has given. */
  takeRetrying(): readonly Retry[];
  /** What went wrong last between the worker and the database. */
  lastFault(): EventError | undefined;
  report(): DrainReport;
}

type Ends = { -readonly [K in Exclude<keyof DrainReport, "errors">]: DrainReport[K][number] };
type End = { [K in keyof Ends]: { readonly as: K; readonly job: Ends[K] } }[keyof Ends];

/** What is listened to, by type of event. */
type Listeners = {
  readonly [T in QueueEvent["type"]]?: (event: Extract<QueueEvent, { readonly type: T }>) => void;
};

/**
 * Creates a log.
 *
 * `onQuiet` is called when the worker has ended the last job that it held.
 */
export function createDrainLog(onQuiet: () => void): DrainLog {
  const held = new Map<number, string>();
  const ends = new Map<number, End>();
  const retrying = new Map<number, Retry>();
  const errors: ErroredJob[] = [];
  let claims = 0;
  let lastFault: EventError | undefined;

  const letGo = (id: number): void => {
    if (held.delete(id) && held.size === 0) onQuiet();
  };

  const end = (told: End): void => {
    const { id } = told.job;
    // A job that ended again takes its place behind the others.
    ends.delete(id);
    ends.set(id, told);
    retrying.delete(id);
    if (told.as === "retrying" || told.as === "failed") {
      const { name, queue, attempt, error } = told.job;
      errors.push({ id, name, queue, attempt, error });
    }
    letGo(id);
  };

  const all = <K extends End["as"]>(as: K): Ends[K][] =>
    [...ends.values()].flatMap((told) => (told.as === as ? [told.job as Ends[K]] : []));

  const listeners: Listeners = {
    "job.claimed": ({ jobId, jobName }) => {
      claims += 1;
      held.set(jobId, jobName);
    },
    "job.done": (event) => end({ as: "done", job: jobOf(event) }),
    "job.failed": (event) => end({ as: "failed", job: erroredOf(event) }),
    "attempt.errored"(event) {
      end({ as: "retrying", job: { ...erroredOf(event), retryInMs: event.retryInMs } });
      retrying.set(event.jobId, { id: event.jobId, leaseVersion: event.leaseVersion });
    },
    "job.snoozed": (event) =>
      end({ as: "snoozed", job: { ...jobOf(event), delayMs: event.delayMs } }),
    "job.cancelled": (event) => end({ as: "cancelled", job: jobOf(event) }),
    "job.released": ({ jobId }) => letGo(jobId),
    // Told before this worker has the job again, if it ever has.
    "lease.lost": (event) => end({ as: "lost", job: jobOf(event) }),
    "handler.errored_after_commit": (event) => void errors.push(erroredOf(event)),
    "statement.errored": ({ error }) => {
      lastFault = error;
    },
    "connection.lost": ({ error }) => {
      lastFault = error;
    },
  };

  return {
    event(event) {
      (listeners[event.type] as ((event: QueueEvent) => void) | undefined)?.(event);
    },
    claims: () => claims,
    held: () => [...held].map(([id, name]) => ({ id, name, state: "running" })),
    isQuiet: () => held.size === 0,
    takeRetrying() {
      const retries = [...retrying.values()];
      retrying.clear();
      return retries;
    },
    lastFault: () => lastFault,
    report: () => ({
      done: all("done"),
      failed: all("failed"),
      retrying: all("retrying"),
      snoozed: all("snoozed"),
      cancelled: all("cancelled"),
      lost: all("lost"),
      errors,
    }),
  };
}

const jobOf = ({ jobId, jobName, queue, attempt }: EventAttempt): DrainedJob => ({
  id: jobId,
  name: jobName,
  queue,
  attempt,
});

const erroredOf = (event: EventAttempt & { readonly error: EventError }): ErroredJob => ({
  ...jobOf(event),
  error: event.error,
});
