/** Marks this library's errors across copies of the package, where `instanceof` would not hold. */
const BRAND = Symbol.for("drizzle-queue.error");
// The classes get it in their constructors: a field with a computed name would keep a class that
// nobody uses in an app's bundle.

/** Every code a {@link QueueError} can carry; docs/errors.md tells cause and remedy of each. */
export type QueueErrorCode =
  | "INVALID_OPTION"
  | "UNKNOWN_JOB"
  | "INVALID_PAYLOAD"
  | "NOT_A_TRANSACTION"
  | "IDEMPOTENCY_CONFLICT"
  | "KEY_CONTENDED"
  | "UNSUPPORTED_DRIVER"
  | "TABLES_MISSING"
  | "WORKER_STATE"
  | "SCHEDULER_STATE"
  | "TEST_TIMED_OUT";

/** Every code an {@link AttemptError} can carry; docs/errors.md tells cause and remedy of each. */
export type AttemptErrorCode =
  | "ATTEMPT_TIMED_OUT"
  | "LEASE_LOST"
  | "WORKER_STOPPING"
  | "JOB_CANCELLED"
  | "STORED_PAYLOAD_INVALID"
  | "RESULT_INVALID"
  | "ALREADY_PROCESSED"
  | "COMMITTED_TWICE";

/** Where in a value something is wrong, and what; never the value itself. */
export interface Issue {
  /** Keys and indexes from the root of the value; empty for the root itself. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** What an error may carry beside its code and message. */
export interface QueueErrorDetails {
  readonly cause?: unknown;
  readonly issues?: readonly Issue[];
}

/**
 * Tells of a wrong use of the library.
 *
 * An enqueue throws it before any SQL is sent, so the caller's transaction stays usable. Only
 * `IDEMPOTENCY_CONFLICT` and `KEY_CONTENDED` may come after its statement, which then wrote nothing.
 */
export class QueueError extends Error {
  override readonly name: string = "QueueError";
  readonly code: QueueErrorCode;
  /**
   * What is wrong with a payload or result, by path; for `enqueueMany` each path begins with the
   * index of the job, also of those in conflict. Empty where there is nothing to point at.
   */
  readonly issues: readonly Issue[];
  declare readonly [BRAND]: "QueueError";

  constructor(code: QueueErrorCode, message: string, details: QueueErrorDetails = {}) {
    super(message, details);
    this.code = code;
    this.issues = details.issues ?? [];
    this[BRAND] = "QueueError";
  }
}

/** Which attempt an {@link AttemptError} speaks of. */
export interface AttemptReference {
  readonly jobId: number;
  readonly jobName: string;
  readonly attempt: number;
}

/**
 * Tells why an attempt cannot go on or could not be accepted.
 *
 * A handler meets it as `signal.reason`, or as what `commit` throws.
 */
export class AttemptError extends Error {
  override readonly name: string = "AttemptError";
  readonly code: AttemptErrorCode;
  readonly jobId: number;
  readonly jobName: string;
  readonly attempt: number;
  declare readonly [BRAND]: "AttemptError";

  constructor(
    code: AttemptErrorCode,
    of: AttemptReference,
    message: string,
    details: Pick<QueueErrorDetails, "cause"> = {},
  ) {
    super(`Job ${of.jobId} ("${of.jobName}"), attempt ${of.attempt}: ${message}`, details);
    this.code = code;
    this.jobId = of.jobId;
    this.jobName = of.jobName;
    this.attempt = of.attempt;
    this[BRAND] = "AttemptError";
  }
}

/**
 * The verdict "never again": a handler throws it to fail its job at once,
 * whatever attempts are left.
 *
 * @example
 * throw new FailJob("The account was closed.");
 */
export class FailJob extends Error {
  override readonly name: string = "FailJob";
  declare readonly [BRAND]: "FailJob";

  constructor(message?: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this[BRAND] = "FailJob";
  }
}

/**
 * The verdict "later": a handler throws it to run its job again after
 * `delayMs` without using up an attempt.
 *
 * @example
 * throw new SnoozeJob({ delayMs: 60_000 });
 */
export class SnoozeJob extends Error {
  override readonly name: string = "SnoozeJob";
  /** Milliseconds from now until the job is due again: 0 to 315,576,000,000, ten years. */
  readonly delayMs: number;
  declare readonly [BRAND]: "SnoozeJob";

  /** @throws {QueueError} `INVALID_OPTION` when `delayMs` is not a number from 0 to ten years. */
  constructor(options: { readonly delayMs: number }) {
    const delayMs: unknown = (options as Partial<typeof options> | null | undefined)?.delayMs;
    if (typeof delayMs !== "number" || !(delayMs >= 0 && delayMs <= MAX_DELAY_MS)) {
      const got = typeof delayMs === "number" ? delayMs : typeof delayMs;
      throw new QueueError(
        "INVALID_OPTION",
        `SnoozeJob takes { delayMs }, a number from 0 to ${MAX_DELAY_MS}, got ${got}.`,
      );
    }
    super(`Run again in ${delayMs} ms.`);
    this.delayMs = delayMs;
    this[BRAND] = "SnoozeJob";
  }
}

/** The longest delay that is taken, in milliseconds: ten years. */
export const MAX_DELAY_MS = 315_576_000_000;

/** Tells which of this library's error classes `value` is an instance of, across package copies. */
export function errorKind(
  value: unknown,
): "QueueError" | "AttemptError" | "FailJob" | "SnoozeJob" | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  try {
    return (value as { readonly [BRAND]?: ReturnType<typeof errorKind> })[BRAND];
  } catch {
    // A hostile getter or proxy was thrown: whatever it is, it is not ours.
    return undefined;
  }
}

/**
 * Tells whether `value` is a {@link QueueError}, with `code` if one is given.
 *
 * Works across two installed copies of the package, where `instanceof` fails.
 *
 * @example
 * if (isQueueError(error, "IDEMPOTENCY_CONFLICT")) return reply.code(409);
 */
export function isQueueError<C extends QueueErrorCode = QueueErrorCode>(
  value: unknown,
  code?: C,
): value is QueueError & { readonly code: C } {
  return (
    errorKind(value) === "QueueError" && (code === undefined || (value as QueueError).code === code)
  );
}

/** Like {@link isQueueError}, for the errors of attempts. */
export function isAttemptError<C extends AttemptErrorCode = AttemptErrorCode>(
  value: unknown,
  code?: C,
): value is AttemptError & { readonly code: C } {
  return (
    errorKind(value) === "AttemptError" &&
    (code === undefined || (value as AttemptError).code === code)
  );
}
