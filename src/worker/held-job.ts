import { AttemptError, type AttemptErrorCode } from "../errors.js";
import type { EventAttempt } from "../instrumentation/instrumentation.js";
import type { ClaimedJob } from "../queries/claimed-row.js";
import type { JobDefinition } from "../registry/job-definition.js";

/**
 * A job while this worker holds it: from the claim until its settlement is
 * answered or its lease is lost.
 */
export interface HeldJob {
  readonly job: ClaimedJob;
  readonly definition: JobDefinition;
  /** `waiting` fetched ahead · `running` in its handler · `ending` on its way to be settled · `over` no longer ours. */
  phase: "waiting" | "running" | "ending" | "over";
  /** When the lease was asked for last; it ends `leaseMs` later, on the local monotonic clock. */
  leasedAtMs: number;
  startedAtMs: number;
  /** Where the app's transaction that completes the job stands; `unknown`: its COMMIT got no answer. */
  commit: "none" | "committing" | "committed" | "unknown";
  /** Why the attempt was told to end, if it was. */
  abortReason: AttemptError | undefined;
  /** Tells the handler, once it has asked for its signal. */
  controller: AbortController | undefined;
}

/** Takes hold of a claimed job whose claim was sent at `leasedAtMs`. */
export function holdJob(job: ClaimedJob, definition: JobDefinition, leasedAtMs: number): HeldJob {
  return {
    job,
    definition,
    phase: "waiting",
    leasedAtMs,
    startedAtMs: 0,
    commit: "none",
    abortReason: undefined,
    controller: undefined,
  };
}

/** When the lease runs out by the local clock, which is never later than by the server's. */
export const leaseEndMs = (held: HeldJob): number => held.leasedAtMs + held.definition.leaseMs;

/** Tells the handler to end, once; its `signal.reason` says why. */
export function abortJob(held: HeldJob, code: AttemptErrorCode, message: string): void {
  if (held.abortReason !== undefined) return;
  held.abortReason = attemptError(held, code, message);
  held.controller?.abort(held.abortReason);
}

/** The signal of an attempt, made when first asked for: most handlers never do. */
export function signalOf(held: HeldJob): AbortSignal {
  if (held.controller === undefined) {
    held.controller = new AbortController();
    if (held.abortReason !== undefined) held.controller.abort(held.abortReason);
  }
  return held.controller.signal;
}

/** An error about this attempt. */
export function attemptError(
  held: HeldJob,
  code: AttemptErrorCode,
  message: string,
  cause?: unknown,
): AttemptError {
  const { id, name, attempts } = held.job;
  const of = { jobId: id, jobName: name, attempt: attempts };
  return new AttemptError(code, of, message, cause === undefined ? {} : { cause });
}

/** What every event about this attempt says. */
export function eventAttempt({ job }: { readonly job: ClaimedJob }): EventAttempt {
  return {
    jobId: job.id,
    jobName: job.name,
    queue: job.queue,
    attempt: job.attempts,
    leaseVersion: job.leaseVersion,
  };
}
