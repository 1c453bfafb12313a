import { type AttemptError, errorKind, type SnoozeJob } from "../errors.js";
import { retryDelayMs } from "../registry/backoff.js";
import type { HeldJob } from "./held-job.js";

/** Every way an attempt can end. */
export type Outcome =
  | {
      readonly kind: "done";
      readonly result: string | null;
      readonly by: "handler" | "already_processed";
    }
  /** `commit` has completed the job already. */
  | { readonly kind: "committed" }
  | { readonly kind: "retry"; readonly error: unknown; readonly delayMs: number }
  | { readonly kind: "fail"; readonly error: unknown }
  | { readonly kind: "snooze"; readonly delayMs: number }
  | { readonly kind: "release" }
  /** With the error of an attempt that ended before it heard of the request. */
  | { readonly kind: "cancel"; readonly error?: unknown }
  /** Another attempt holds the job, or may: nothing can be written. */
  | { readonly kind: "lost" };

/**
 * Tells how an attempt ends whose handler threw.
 *
 * What told the handler to end weighs more than what it threw then: an aborted
 * `fetch` throws an error of its own.
 */
export function outcomeOf(thrown: unknown, held: HeldJob): Outcome {
  if (held.commit === "committed") return { kind: "committed" };
  const reason = reasonOf(thrown, held);
  if (reason !== undefined) return outcomeOfReason(reason, held);
  const kind = errorKind(thrown);
  if (kind === "FailJob") return { kind: "fail", error: thrown };
  if (kind === "SnoozeJob") return { kind: "snooze", delayMs: (thrown as SnoozeJob).delayMs };
  return retryOrFail(thrown, held);
}

/** The library's own reason to end this attempt, told to the handler or thrown by `commit`. */
function reasonOf(thrown: unknown, held: HeldJob): AttemptError | undefined {
  if (held.abortReason !== undefined) return held.abortReason;
  if (errorKind(thrown) !== "AttemptError") return undefined;
  const error = thrown as AttemptError;
  // One of another job's attempts is an error like any other.
  return error.jobId === held.job.id && error.attempt === held.job.attempts ? error : undefined;
}

function outcomeOfReason(reason: AttemptError, held: HeldJob): Outcome {
  switch (reason.code) {
    case "LEASE_LOST":
      return { kind: "lost" };
    case "WORKER_STOPPING":
      return { kind: "release" };
    case "JOB_CANCELLED":
      return { kind: "cancel" };
    case "ALREADY_PROCESSED":
      return { kind: "done", result: null, by: "already_processed" };
    case "STORED_PAYLOAD_INVALID":
      return { kind: "fail", error: reason };
    case "ATTEMPT_TIMED_OUT":
    case "RESULT_INVALID":
    case "COMMITTED_TWICE":
      return retryOrFail(reason, held);
  }
}

function retryOrFail(error: unknown, held: HeldJob): Outcome {
  const { attempts, maxAttempts } = held.job;
  if (attempts >= maxAttempts || !isWorthRetrying(error, held)) return { kind: "fail", error };
  return { kind: "retry", error, delayMs: retryDelayMs(held.definition.backoff, attempts) };
}

function isWorthRetrying(error: unknown, { definition, job }: HeldJob): boolean {
  try {
    return definition.retryIf(error, { attempt: job.attempts, maxAttempts: job.maxAttempts });
  } catch {
    // A decision that cannot be made must not cost the job: it is tried again.
    return true;
  }
}
