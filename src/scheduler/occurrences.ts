import { Cron } from "croner";
import { QueueError } from "../errors.js";
import { checkText, invalidOption } from "../registry/option-checks.js";

/** How far missed occurrences are counted: the number is for a log, not for reckoning. */
export const MAX_MISSED = 100;

const MAX_CRON_BYTES = 512;
const MAX_ZONE_BYTES = 64;
const SECOND_MS = 1_000;

/** When a schedule is due; times are milliseconds since 1970. */
export interface Occurrences {
  /** The first one after a time; undefined: there is none any more. */
  nextAfter(ms: number): number | undefined;
  /**
   * The latest one after `afterMs` and not later than `untilMs`, and how many lie before it in that
   * range, counted up to {@link MAX_MISSED}; undefined: none.
   */
  latest(
    afterMs: number,
    untilMs: number,
  ): { readonly dueMs: number; readonly missed: number } | undefined;
}

/**
 * Tells when a cron pattern is due by the clock of a time zone, as croner reads it:
 *
 * - A pattern without `*`, `?` and `/` in seconds, minutes and hours names **fixed times**, lists
 *   and ranges too. Those that the clock skips are due when it has skipped; those that it shows
 *   twice are due the first time.
 * - Any other pattern is an **interval**. It keeps its spacing: nothing is due in the hour that does
 *   not exist, and an hour that comes twice is kept twice.
 *
 * Every occurrence is a whole second. The process's own time zone and clock play no part. A pattern
 * whose years have passed is due no more, which is no mistake: its last occurrence may have been missed.
 *
 * @param option How errors name the schedule, such as `schedules.nightly`.
 * @throws {QueueError} `INVALID_OPTION` when the pattern or the zone is not known or never due.
 */
export function occurrencesOf(option: string, cron: unknown, timeZone: unknown): Occurrences {
  const nextAfter = remembering(readPattern(option, cron, timeZone));
  if (nextAfter(0) === undefined)
    throw new QueueError(
      "INVALID_OPTION",
      `${option}.cron is never due: its dates do not exist. Correct its day, month or year.`,
    );
  return {
    nextAfter,
    latest(afterMs, untilMs) {
      const dueMs = latestOf(nextAfter, afterMs, untilMs);
      return dueMs === undefined
        ? undefined
        : { dueMs, missed: countBefore(nextAfter, afterMs, dueMs) };
    },
  };
}

type NextAfter = Occurrences["nextAfter"];

/** Keeps the last answer: a scheduler asks again and again until it is due, and croner takes 100 ms in the hours before a lost one. */
function remembering(cron: Cron): NextAfter {
  let askedMs = Number.POSITIVE_INFINITY;
  let answer = Number.NEGATIVE_INFINITY;
  return (ms) => {
    if (ms < askedMs || ms >= answer) {
      askedMs = ms;
      answer = cron.nextRun(new Date(ms))?.getTime() ?? Number.POSITIVE_INFINITY;
    }
    return answer === Number.POSITIVE_INFINITY ? undefined : answer;
  };
}

/** Finds the latest by halves: two occurrences are a second apart, or more. */
function latestOf(next: NextAfter, afterMs: number, untilMs: number): number | undefined {
  const nextIn = (fromMs: number): number | undefined => {
    const due = next(fromMs);
    return due !== undefined && due <= untilMs ? due : undefined;
  };
  let found = nextIn(afterMs);
  if (found === undefined) return undefined;
  // Nothing is due after `end`.
  for (let end = untilMs; end - found >= SECOND_MS; ) {
    const middle: number = found + Math.floor((end - found) / 2);
    const later = nextIn(middle);
    if (later === undefined) end = middle;
    else found = later;
  }
  return found;
}

/** Counts from the start of the range, since a pattern may be dense anywhere in it. */
function countBefore(next: NextAfter, afterMs: number, dueMs: number): number {
  let count = 0;
  let due = next(afterMs);
  while (due !== undefined && due < dueMs && count < MAX_MISSED) {
    count += 1;
    due = next(due);
  }
  return count;
}

function readPattern(where: string, cron: unknown, timeZone: unknown): Cron {
  const option = `${where}.cron`;
  checkText(option, cron, MAX_CRON_BYTES);
  const text = String(cron).trim();
  const count = text.split(/\s+/).length;
  // What has a colon, croner takes for a date.
  if (text.includes(":") || (!text.startsWith("@") && (count < 5 || count > 7)))
    throw new QueueError(
      "INVALID_OPTION",
      `${option} must be five fields, six with seconds first or seven with a year last, or a nickname such as @daily, got ${count} fields. For one run at a date, enqueue a job with runAt.`,
    );
  const timezone = readZone(`${where}.timeZone`, timeZone);
  try {
    return new Cron(text, { timezone, paused: true, fixedTimeRule: "no-wildcard" });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new QueueError(
      "INVALID_OPTION",
      `${option} must be a cron pattern that croner can read, which says: ${reason.replace(/^CronPattern: /, "")}`,
      { cause },
    );
  }
}

function readZone(option: string, timeZone: unknown): string {
  checkText(option, timeZone, MAX_ZONE_BYTES);
  const name = String(timeZone);
  const must = "the IANA name of a time zone, such as Europe/Berlin or UTC";
  // Newer versions of Node take offsets too.
  if (/^[+-]/.test(name)) throw invalidOption(option, `${must}, not an offset`, timeZone);
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone: name }).resolvedOptions().timeZone;
  } catch (cause) {
    throw new QueueError("INVALID_OPTION", `${option} must be ${must}; Node knows no such zone.`, {
      cause,
    });
  }
}
