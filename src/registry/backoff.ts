import { MAX_DELAY_MS } from "../errors.js";
import type { Backoff } from "./job-definition.js";
import { checkNumber, refuseUnknownOptions } from "./option-checks.js";

/** How much of a delay is left to chance, unless told: jobs that errored together come back apart. */
const DEFAULT_JITTER = 0.25;

/** The settings of {@link exponential}. */
export interface ExponentialOptions {
  /** The delay after the first attempt, in milliseconds: 0 to 315,576,000,000, ten years. */
  readonly baseMs: number;
  /** The longest delay, in milliseconds: `baseMs` to 315,576,000,000. */
  readonly maxMs: number;
  /** What each delay is multiplied with to give the next: 1 to 100. @default 2 */
  readonly factor?: number | undefined;
  /** The share of a delay that is random, 0 to 1; it only shortens. @default 0.25 */
  readonly jitter?: number | undefined;
}

/**
 * Delays that grow by a factor with each attempt, up to a ceiling.
 *
 * @throws {QueueError} `INVALID_OPTION` when an option is out of its range.
 * @example
 * backoff: exponential({ baseMs: 30_000, maxMs: 3_600_000 })
 */
export function exponential(options: ExponentialOptions): Backoff {
  refuseUnknownOptions("exponential()", options, ["baseMs", "maxMs", "factor", "jitter"]);
  const { baseMs, maxMs, factor = 2, jitter = DEFAULT_JITTER } = options;
  checkNumber("exponential(): baseMs", baseMs, 0, MAX_DELAY_MS);
  checkNumber("exponential(): maxMs", maxMs, baseMs, MAX_DELAY_MS);
  checkNumber("exponential(): factor", factor, 1, 100);
  checkNumber("exponential(): jitter", jitter, 0, 1);
  // The power may reach Infinity, and 0 times that is NaN: a base of 0 stays 0.
  return (attempt) =>
    baseMs === 0 ? 0 : shortened(Math.min(maxMs, baseMs * factor ** (attempt - 1)), jitter);
}

/** The settings of {@link fixed}. */
export interface FixedOptions {
  /** The delay after each attempt, in milliseconds: 0 to 315,576,000,000, ten years. */
  readonly delayMs: number;
  /** The share of a delay that is random, 0 to 1; it only shortens. @default 0.25 */
  readonly jitter?: number | undefined;
}

/**
 * The same delay after each attempt.
 *
 * @throws {QueueError} `INVALID_OPTION` when an option is out of its range.
 */
export function fixed(options: FixedOptions): Backoff {
  refuseUnknownOptions("fixed()", options, ["delayMs", "jitter"]);
  const { delayMs, jitter = DEFAULT_JITTER } = options;
  checkNumber("fixed(): delayMs", delayMs, 0, MAX_DELAY_MS);
  checkNumber("fixed(): jitter", jitter, 0, 1);
  return () => shortened(delayMs, jitter);
}

/** Jitter only ever shortens, so that a ceiling stays one. */
const shortened = (delayMs: number, jitter: number): number =>
  delayMs * (1 - jitter * Math.random());

/** What a definition without a backoff gets. */
export const DEFAULT_BACKOFF: Backoff = /* @__PURE__ */ exponential({
  baseMs: 5_000,
  maxMs: 3_600_000,
});

/**
 * Asks a backoff for the delay after an attempt; always a number from 0 to ten years.
 *
 * A backoff is the app's code: if it throws or gives NaN, the default's answer
 * is taken, since the job has to be settled all the same.
 */
export function retryDelayMs(backoff: Backoff | undefined, attempt: number): number {
  const delayMs = ask(backoff, attempt);
  return Math.min(
    MAX_DELAY_MS,
    Math.max(0, Number.isNaN(delayMs) ? DEFAULT_BACKOFF(attempt) : delayMs),
  );
}

function ask(backoff: Backoff | undefined, attempt: number): number {
  try {
    return Number(backoff?.(attempt));
  } catch {
    return Number.NaN;
  }
}
