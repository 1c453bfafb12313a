import type { $ZodType, input, output } from "zod/v4/core";
import {
  DEFINITION,
  type IdempotencyKey,
  type JobDefinition,
  type JobSettings,
} from "./job-definition.js";
import {
  checkFunction,
  checkInteger,
  checkNumber,
  checkText,
  invalidOption,
  MAX_INT32,
  refuseUnknownOptions,
} from "./option-checks.js";

/** The shortest lease: below it, renewals would be most of a worker's work. */
const MIN_LEASE_MS = 500;

type JsonLeaf = string | number | boolean | null | undefined;

/** What JSON cannot hold, with the reason in the type, to be read in the compiler's message. */
export interface NotJson<Reason extends string> {
  readonly __notJson: Reason;
}

/** The same type where it survives JSON; where it does not, {@link NotJson} stands in its place. */
export type JsonCheck<T> = 0 extends 1 & T
  ? T
  : unknown extends T
    ? T
    : T extends JsonLeaf
      ? T
      : T extends NonJson
        ? NotJson<"drizzle-queue: a payload is stored as JSON; use z.iso.datetime(), z.codec(…), a string or a number">
        : T extends readonly (infer E)[]
          ? readonly JsonCheck<E>[]
          : T extends object
            ? { [K in keyof T]: JsonCheck<T[K]> }
            : T;

type NonJson =
  | bigint
  | symbol
  | ((...parameters: never) => unknown)
  | Date
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | RegExp
  | ArrayBufferView;

/** Demands a schema whose input survives JSON. */
export type MustBeJson<S extends $ZodType> =
  input<S> extends JsonCheck<input<S>>
    ? unknown
    : { readonly __payloadMustBeJson: JsonCheck<input<S>> };

/** What {@link defineJob} takes. */
export interface JobSpec<S extends $ZodType, R extends $ZodType | undefined> extends JobSettings {
  /**
   * Checks the payload when it is enqueued and again before it is handled. Synchronous only.
   * As JSON it may have `maxPayloadBytes` of the queue.
   */
  readonly payload: S & MustBeJson<S>;
  /**
   * Derives the idempotency key from the parsed payload, 1 to 512 bytes: two enqueues with one
   * key give one job. Null for none.
   *
   * The job's name and the key are taken for as long as the job's row or its processed key is
   * there: also after it was done, and after it has failed. The second enqueue must have the same
   * input, as the caller passed it, before defaults and stripping: else it is an
   * `IDEMPOTENCY_CONFLICT`. @default no key
   */
  readonly idempotencyKey?: ((payload: output<S>) => IdempotencyKey | null) | undefined;
  /**
   * Checks what the handler returns, which as JSON may have `maxPayloadBytes` of the queue too.
   * @default none: a handler returns nothing
   */
  readonly result?: R | undefined;
}

const OPTIONS = [
  "payload",
  "idempotencyKey",
  "result",
  "queue",
  "priority",
  "maxAttempts",
  "leaseMs",
  "timeoutMs",
  "backoff",
  "retryIf",
] as const;

/** What other queues take here, and where it goes in this one. */
const MISPLACED = new Map([
  ["handler", "A worker takes it: createWorker({ queue, db, handlers: { … } })."],
  ["name", "A job's name is its key: defineJobs({ report: defineJob({ … }) })."],
]);

/**
 * Defines one kind of job; its name is its key in {@link defineJobs}.
 *
 * @throws {QueueError} `INVALID_OPTION` when an option is unknown or out of its range.
 * @example
 * const report = defineJob({
 *   payload: z.object({ reportId: z.uuid() }),
 *   idempotencyKey: (payload) => payload.reportId,
 *   maxAttempts: 5,
 * });
 */
export function defineJob<S extends $ZodType>(
  spec: JobSpec<S, undefined> & { readonly result?: undefined },
): JobDefinition<S, undefined>;
// One signature would infer `any` for the result where defineJobs gives a contextual type.
export function defineJob<S extends $ZodType, R extends $ZodType>(
  spec: JobSpec<S, R> & { readonly result: R & MustBeJson<R> },
): JobDefinition<S, R>;
export function defineJob(spec: JobSpec<$ZodType, $ZodType | undefined>): JobDefinition {
  refuseUnknownOptions("defineJob()", spec, OPTIONS, MISPLACED);
  const { payload, result, idempotencyKey } = spec;
  checkSchema("payload", payload);
  if (result !== undefined) checkSchema("result", result);
  if (idempotencyKey !== undefined) checkFunction("defineJob(): idempotencyKey", idempotencyKey);
  return Object.freeze({
    [DEFINITION]: true as const,
    payload,
    result,
    idempotencyKey: idempotencyKey as JobDefinition["idempotencyKey"],
    ...settingsOf(spec),
  });
}

/** Only what is left out takes its default: null is a mistake, but for `timeoutMs`, where it means no limit. */
function settingsOf({
  queue = "default",
  priority = 5,
  maxAttempts = 10,
  leaseMs = 30_000,
  timeoutMs = 900_000,
  backoff,
  retryIf = () => true,
}: JobSettings): Pick<JobDefinition, keyof JobSettings> {
  checkText("defineJob(): queue", queue);
  checkInteger("defineJob(): priority", priority, 0, 9);
  checkInteger("defineJob(): maxAttempts", maxAttempts, 1, MAX_INT32);
  checkNumber("defineJob(): leaseMs", leaseMs, MIN_LEASE_MS, MAX_INT32);
  if (timeoutMs !== null) checkNumber("defineJob(): timeoutMs", timeoutMs, 1, MAX_INT32);
  if (backoff !== undefined) checkFunction("defineJob(): backoff", backoff);
  checkFunction("defineJob(): retryIf", retryIf);
  return { queue, priority, maxAttempts, leaseMs, timeoutMs, backoff, retryIf };
}

function checkSchema(option: string, schema: unknown): void {
  if ((schema as Partial<$ZodType> | undefined)?._zod === undefined)
    throw invalidOption(`defineJob(): ${option}`, "a schema of zod 4", schema);
}
