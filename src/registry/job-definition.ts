import type { $ZodType, input, output } from "zod/v4/core";

/**
 * Gives the delay before the next attempt, in milliseconds.
 *
 * `attempt` is the number of the attempt that errored and counts from 1. What
 * comes back is clamped to 0…ten years; NaN falls back to the default backoff.
 */
export type Backoff = (attempt: number) => number;

/** A key as an app writes it: a string, or parts that are joined without ambiguity. */
export type IdempotencyKey = string | readonly (string | number)[];

/** What a retry decision is made on, beside the error. */
export interface RetryContext {
  /** The attempt that errored, counted from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
}

/** Tells whether an error is worth another attempt; `false` fails the job at once. */
export type RetryDecision = (error: unknown, context: RetryContext) => boolean;

/** The settings of a job that do not depend on its payload. */
export interface JobSettings {
  /** The line in which the job waits: 1 to 128 bytes. @default "default" */
  readonly queue?: string | undefined;
  /** 0 (first) to 9 (last). @default 5 */
  readonly priority?: number | undefined;
  /** How often the job starts at most, crashes included: 1 to 2,147,483,647. @default 10 */
  readonly maxAttempts?: number | undefined;
  /** How long a claim holds without a renewal, in milliseconds: 500 to 2,147,483,647. @default 30_000 */
  readonly leaseMs?: number | undefined;
  /** How long one attempt may take, in milliseconds: 1 to 2,147,483,647; `null` for no limit. @default 900_000 */
  readonly timeoutMs?: number | null | undefined;
  /** The delay before the next attempt. @default exponential({ baseMs: 5_000, maxMs: 3_600_000 }) */
  readonly backoff?: Backoff | undefined;
  /**
   * Decides which errors are retried, those of the library among them (`ATTEMPT_TIMED_OUT`,
   * `RESULT_INVALID`). Not asked after a crash, nor when no attempt is left. @default every one
   */
  readonly retryIf?: RetryDecision | undefined;
}

/** Marks definitions, across copies of the package. */
export const DEFINITION: unique symbol = Symbol.for("drizzle-queue.job-definition");

/** `Required` would leave undefined in, where an app sets `exactOptionalPropertyTypes`. */
type FilledIn<T> = { [K in keyof T]-?: Exclude<T[K], undefined> };

/**
 * One kind of job: its payload and result schemas, key and settings.
 *
 * It holds no handler, so what only enqueues never imports handler code.
 */
export interface JobDefinition<
  S extends $ZodType = $ZodType,
  R extends $ZodType | undefined = $ZodType | undefined,
> extends FilledIn<Omit<JobSettings, "backoff">> {
  readonly [DEFINITION]: true;
  readonly payload: S;
  readonly result: R;
  /** Undefined for the default, which only a worker needs to know. */
  readonly backoff: Backoff | undefined;
  /** Derives the key from the parsed payload; `never` keeps definitions of any payload in one map. */
  readonly idempotencyKey: ((payload: never) => IdempotencyKey | null) | undefined;
}

/** Every job of an app by its name. */
export type JobMap = Readonly<Record<string, JobDefinition>>;

/** What `enqueue` takes as the payload of a job: the schema's input. */
export type PayloadInput<D> = D extends JobDefinition<infer S> ? input<S> : never;

/** What a handler receives as payload: the schema's output. */
export type PayloadOutput<D> = D extends JobDefinition<infer S> ? output<S> : never;

/** What a handler returns: the result schema's input, or nothing without one. */
export type ResultInput<D> = D extends { readonly result: infer R }
  ? R extends $ZodType
    ? input<R>
    : void
  : never;

/** What is read back as a job's result: the result schema's output, or null without one. */
export type ResultOutput<D> = D extends { readonly result: infer R }
  ? R extends $ZodType
    ? output<R>
    : null
  : never;

/** The job map of a queue. */
export type JobsOf<Q> = Q extends { readonly jobs: infer M extends JobMap } ? M : never;
