/** The job an event speaks of; never its payload. */
export interface EventJob {
  readonly jobId: number;
  readonly jobName: string;
  readonly queue: string;
}

/** The attempt an event speaks of. */
export interface EventAttempt extends EventJob {
  /** Which attempt of the job, counted from 1. */
  readonly attempt: number;
  readonly leaseVersion: number;
}

/** The occurrence of a schedule that an event speaks of. */
export interface EventOccurrence {
  readonly schedule: string;
  readonly jobName: string;
  /** The time of the pattern. */
  readonly dueAt: Date;
}

/** How an event describes an error: its class and text, cut to a fixed length. */
export interface EventError {
  readonly name: string;
  readonly message: string;
  /** The error's own code, or the SQLSTATE of a database error. */
  readonly code?: string;
  /** Where an attempt's error was made: the lines of its stack behind the message, which may say more than `message`. */
  readonly stack?: string;
}

/** Which connection an event speaks of: one of the worker's own, or `app`, one of the app's pool. */
export type ConnectionRole = "main" | "renewal" | "listen" | "app";

/**
 * Everything that can be observed, discriminated by `type`; docs/telemetry.md lists it.
 *
 * An event is a fact: by the time it is emitted, it has happened.
 */
export type QueueEvent =
  | (EventJob & { readonly type: "job.enqueued"; readonly created: boolean })
  | {
      readonly type: "worker.started";
      readonly workerId: string;
      /** The queues and job names that it serves. */
      readonly queues: readonly string[];
      readonly names: readonly string[];
    }
  | {
      readonly type: "worker.stopped";
      readonly workerId: string;
      /** Claimed jobs that were given back before they had started. */
      readonly released: number;
      /** Jobs whose handler was still running when `stop` returned. */
      readonly abandoned: readonly number[];
    }
  | {
      /** The worker has learnt that one of its queues is paused, and starts none of its jobs. */
      readonly type: "queue.paused";
      readonly workerId: string;
      readonly queue: string;
    }
  | {
      /** The worker has learnt that the pause is over. */
      readonly type: "queue.resumed";
      readonly workerId: string;
      readonly queue: string;
    }
  | {
      readonly type: "scheduler.started";
      /** The names of its schedules. */
      readonly schedules: readonly string[];
    }
  | { readonly type: "scheduler.stopped" }
  | (EventOccurrence & {
      /** A scheduler has enqueued the job of an occurrence. */
      readonly type: "schedule.enqueued";
      readonly jobId: number;
      /** False when a job had its idempotency key before: that one's id is told, and nothing was enqueued. */
      readonly created: boolean;
      /** Occurrences before it that nobody enqueued at their time, and that it stands for; counted up to 100. */
      readonly missed: number;
    })
  | (EventOccurrence & {
      /** An occurrence was left out: the job of the one before has not ended, or it is too late for it. */
      readonly type: "schedule.skipped";
      readonly reason: "overlap" | "late";
      readonly missed: number;
    })
  | (EventOccurrence & {
      /** The job of an occurrence could not be enqueued; it is tried again. */
      readonly type: "schedule.errored";
      readonly error: EventError;
      readonly retryInMs: number;
    })
  | (EventAttempt & { readonly type: "job.claimed"; readonly workerId: string })
  | (EventAttempt & {
      readonly type: "lease.expired";
      /** Whether attempts were left; without one the job became failed. */
      readonly retried: boolean;
    })
  | { readonly type: "leases.renewed"; readonly count: number; readonly busy: number }
  | (EventAttempt & {
      readonly type: "lease.lost";
      /** What noticed it: the renewal, the settling statement, `commit`, or the local deadline. */
      readonly noticedBy: "renewal" | "settle" | "commit" | "deadline";
    })
  | (EventAttempt & { readonly type: "job.started" })
  | (EventAttempt & {
      readonly type: "job.done";
      readonly durationMs: number;
      /** `handler`: it ran. `already_processed`: its key was there, the effect stands. */
      readonly by: "handler" | "already_processed";
    })
  | (EventAttempt & {
      readonly type: "attempt.errored";
      readonly error: EventError;
      readonly retryInMs: number;
    })
  | (EventAttempt & { readonly type: "job.failed"; readonly error: EventError })
  | (EventAttempt & { readonly type: "job.snoozed"; readonly delayMs: number })
  | (EventAttempt & { readonly type: "job.released" })
  | (EventAttempt & {
      readonly type: "job.cancelled";
      /** What its last attempt errored with, where that was before it heard of the request. */
      readonly error?: EventError;
    })
  | (EventAttempt & {
      /** A handler goes on after its abort; its slot was given to others. */
      readonly type: "handler.stuck";
      readonly stuck: number;
    })
  | (EventAttempt & {
      /** A handler threw after its commit had succeeded: the job is done all the same. */
      readonly type: "handler.errored_after_commit";
      readonly error: EventError;
    })
  | {
      readonly type: "statement.errored";
      readonly statement: string;
      readonly error: EventError;
      readonly retryInMs: number;
    }
  | { readonly type: "connection.lost"; readonly role: ConnectionRole; readonly error: EventError }
  | {
      readonly type: "connection.restored";
      readonly role: ConnectionRole;
      readonly afterMs: number;
    }
  | { readonly type: "event_loop.blocked"; readonly blockedMs: number }
  | {
      /** Jobs that had outlived their retention were deleted. */
      readonly type: "jobs.pruned";
      readonly outcome: "done" | "failed" | "cancelled";
      readonly count: number;
    }
  | { readonly type: "processed_keys.pruned"; readonly count: number };

/** Receives every event; tracing, metrics and logging are implementations of it. */
export interface Instrumentation {
  /** Called synchronously; what it throws or rejects is trapped and warned of once. */
  event(event: QueueEvent): void;
}

/** The longest text of an error that an event carries. */
const MAX_TEXT_LENGTH = 500;
const MAX_STACK_LENGTH = 4_000;

/** Describes any thrown value for an event; never throws, whatever it is handed. */
export function eventError(thrown: unknown): EventError {
  try {
    const error = underlyingError(thrown) as ErrorLike;
    if (typeof error !== "object" || error === null)
      return { name: "Error", message: cut(String(error)) };
    return {
      name: typeof error.name === "string" ? cut(error.name) : "Error",
      message: cut(String(error.message)),
      ...(typeof error.code === "string" && { code: cut(error.code) }),
    };
  } catch {
    // A throwing getter or proxy: nothing of it can be read, which is what we report.
    return { name: "Error", message: "An error that cannot be read was thrown." };
  }
}

/** The same of what ended an attempt, with where it was made. */
export function attemptEventError(thrown: unknown): EventError {
  const told = eventError(thrown);
  try {
    const { stack } = underlyingError(thrown) as ErrorLike;
    const frames = String(stack)
      .split("\n")
      .filter((line) => /^\s+at /.test(line));
    if (frames.length === 0) return told;
    return { ...told, stack: frames.join("\n").slice(0, MAX_STACK_LENGTH) };
  } catch {
    // A stack that cannot be read is left out.
    return told;
  }
}

interface ErrorLike {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly code?: unknown;
  readonly stack?: unknown;
}

const cut = (text: string): string => text.slice(0, MAX_TEXT_LENGTH);

/**
 * Looks behind Drizzle's error to the driver's: the message of the former
 * holds the values that were bound, which are nobody's to log or to store.
 *
 * @throws whatever a getter of `thrown` throws.
 */
export function underlyingError(thrown: unknown): unknown {
  if (typeof thrown !== "object" || thrown === null) return thrown;
  if (!("query" in thrown && "params" in thrown)) return withoutValue(thrown);
  const { cause } = thrown as { readonly cause?: unknown };
  return withoutValue(cause ?? { name: "DrizzleQueryError", message: "A query failed." });
}

/** PostgreSQL's data exceptions (class 22) end with the value that they are about, in quotes. */
function withoutValue(error: unknown): unknown {
  const { name, message, code } = error as ErrorLike;
  const isDataException = typeof code === "string" && /^22[0-9A-Z]{3}$/.test(code);
  if (!isDataException || typeof message !== "string") return error;
  return { name, code, message: message.split('"', 1)[0]?.replace(/[:\s]+$/, "") };
}

/**
 * Wraps a listener so that nothing it does can reach the queue.
 *
 * @returns A function that emits, or undefined without a listener, so that no
 *   event has to be built for nobody.
 */
export function emitter(
  listener: Instrumentation | undefined,
): ((event: QueueEvent) => void) | undefined {
  if (listener === undefined) return undefined;
  const warn = warnOnce();
  return (event) => {
    try {
      const returned: unknown = listener.event(event);
      if (returned instanceof Promise) returned.catch(warn);
    } catch (error) {
      warn(error);
    }
  };
}

/** A listener that throws at each event would fill the log. */
function warnOnce(): (error: unknown) => void {
  let hasWarned = false;
  return (error) => {
    if (hasWarned) return;
    hasWarned = true;
    // oxlint-disable-next-line no-console -- The listener is the channel that failed; the console is what is left.
    console.warn("drizzle-queue: the instrumentation threw (told once):", error);
  };
}
