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
  /** Checks the payload when it is enqueued and again before it is handled. Synchronous only. */
  readonly payload: S & MustBeJson<S>;
  /**
   * Derives the idempotency key from the parsed payload: two enqueues with one
   * key give one job. Null for none.
   */
  readonly idempotencyKey?: (payload: output<S>) => IdempotencyKey | null;
  /** Checks what the handler returns; without it, a handler returns nothing. */
  readonly result?: R;
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
];

/** What other queues take here, and where it goes in this one. */
const MISPLACED = new Map([
  ["handler", "Give handlers to the worker: createWorker({ queue, db, handlers: { … } })."],
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
  checkSchema("payload", spec.payload);
  if (spec.result !== undefined) checkSchema("result", spec.result);
  if (spec.idempotencyKey !== undefined)
    checkFunction("defineJob(): idempotencyKey", spec.idempotencyKey);
  return Object.freeze({
    [DEFINITION]: true as const,
    payload: spec.payload,
    result: spec.result,
    idempotencyKey: spec.idempotencyKey as JobDefinition["idempotencyKey"],
    ...settingsOf(spec),
  });
}

function settingsOf(spec: JobSettings): Pick<JobDefinition, keyof JobSettings> {
  const settings: Pick<JobDefinition, keyof JobSettings> = {
    queue: spec.queue ?? "default",
    priority: spec.priority ?? 5,
    maxAttempts: spec.maxAttempts ?? 10,
    leaseMs: spec.leaseMs ?? 30_000,
    // Null means no limit, so only undefined takes the default.
    timeoutMs: spec.timeoutMs === undefined ? 900_000 : spec.timeoutMs,
    backoff: spec.backoff,
    retryIf: spec.retryIf ?? retryAll,
  };
  checkText("defineJob(): queue", settings.queue);
  checkInteger("defineJob(): priority", settings.priority, 0, 9);
  checkInteger("defineJob(): maxAttempts", settings.maxAttempts, 1, MAX_INT32);
  checkNumber("defineJob(): leaseMs", settings.leaseMs, MIN_LEASE_MS, MAX_INT32);
  if (settings.timeoutMs !== null)
    checkNumber("defineJob(): timeoutMs", settings.timeoutMs, 1, MAX_INT32);
  if (spec.backoff !== undefined) checkFunction("defineJob(): backoff", spec.backoff);
  checkFunction("defineJob(): retryIf", settings.retryIf);
  return settings;
}

const retryAll = (): boolean => true;

function checkSchema(option: string, schema: unknown): void {
  if (typeof schema === "object" && schema !== null && "_zod" in schema) return;
  throw invalidOption(`defineJob(): ${option}`, "a schema of zod 4", schema);
}
