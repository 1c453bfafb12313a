import { MAX_DELAY_MS, QueueError } from "../errors.js";
import type { IdempotencyKey, JobDefinition } from "../registry/job-definition.js";
import {
  checkInteger,
  checkNumber,
  checkText,
  invalidOption,
  MAX_INT32,
  refuseUnknownOptions,
} from "../registry/option-checks.js";

/** The longest idempotency key, in bytes of UTF-8: an index entry cannot hold much more. */
const MAX_KEY_BYTES = 512;

/** What can be said of one job when it is enqueued; what is left out comes from its definition. */
export interface EnqueueOptions {
  /** The earliest start, in the years 1 to 9999; the past means at once. Not with `delayMs`. @default at once */
  readonly runAt?: Date | undefined;
  /**
   * The earliest start, in milliseconds from now by the database's clock: 0 to 315,576,000,000,
   * ten years. Not with `runAt`. @default 0
   */
  readonly delayMs?: number | undefined;
  /** 0 (first) to 9 (last). @default that of the job's definition */
  readonly priority?: number | undefined;
  /** 1 to 512 bytes; null for none. @default what the job's definition derives from the payload */
  readonly idempotencyKey?: IdempotencyKey | null | undefined;
  /** How often the job starts at most, crashes included: 1 to 2,147,483,647. @default that of the job's definition */
  readonly maxAttempts?: number | undefined;
  /** The line in which the job waits, 1 to 128 bytes; a worker must serve it. @default that of the job's definition */
  readonly queue?: string | undefined;
}

/** The options of one job, checked and complete. */
export interface CheckedOptions {
  readonly queue: string;
  readonly priority: number;
  readonly maxAttempts: number;
  /** ISO 8601; null to start after `delayMs`. */
  readonly runAt: string | null;
  readonly delayMs: number;
}

const OPTIONS = ["runAt", "delayMs", "priority", "idempotencyKey", "maxAttempts", "queue"] as const;

/** @throws {QueueError} `INVALID_OPTION` when an option is unknown, out of its range, or clashes with another. */
export function checkOptions(definition: JobDefinition, options: EnqueueOptions): CheckedOptions {
  refuseUnknownOptions("enqueue options", options, OPTIONS);
  const {
    queue = definition.queue,
    priority = definition.priority,
    maxAttempts = definition.maxAttempts,
    delayMs = 0,
  } = options;
  checkText("queue", queue);
  checkInteger("priority", priority, 0, 9);
  checkInteger("maxAttempts", maxAttempts, 1, MAX_INT32);
  checkNumber("delayMs", delayMs, 0, MAX_DELAY_MS);
  return { queue, priority, maxAttempts, runAt: startOf(options), delayMs };
}

/** A Date goes as text: not every driver takes one, and none may read it in a session's zone. */
function startOf({ runAt, delayMs }: EnqueueOptions): string | null {
  if (runAt === undefined) return null;
  if (delayMs !== undefined)
    throw new QueueError("INVALID_OPTION", "runAt and delayMs exclude each other.");
  const year = runAt instanceof Date ? runAt.getUTCFullYear() : 0;
  if (year >= 1 && year <= 9999) return runAt.toISOString();
  throw invalidOption("runAt", "a valid Date in the years 1 to 9999", runAt);
}

/**
 * Finds a job's key: the option's, else the one its definition derives, else none.
 *
 * @throws {QueueError} `INVALID_OPTION` when it is not a key of 1 to 512 bytes.
 */
export function keyOf(
  name: string,
  definition: JobDefinition,
  options: EnqueueOptions,
  payload: unknown,
): string | null {
  const { idempotencyKey: given = derived(definition, payload) } = options;
  if (given === null) return null;
  const what = `Job "${name}": idempotencyKey`;
  const key = Array.isArray(given) ? joined(what, given) : given;
  checkText(what, key, MAX_KEY_BYTES);
  return key as string;
}

/** What the app's function gives is checked like an option: undefined is a mistake, not "none". */
function derived(definition: JobDefinition, payload: unknown): unknown {
  const derive = definition.idempotencyKey as ((payload: unknown) => unknown) | undefined;
  return derive === undefined ? null : derive(payload);
}

/** JSON keeps the parts apart: ["a", "bc"] and ["ab", "c"] are two keys. No parts are an empty key. */
function joined(what: string, parts: readonly unknown[]): string {
  for (const part of parts) {
    if (!Number.isFinite(part)) checkText(`${what}: a part`, part, MAX_KEY_BYTES, 0);
  }
  return parts.length === 0 ? "" : JSON.stringify(parts);
}
