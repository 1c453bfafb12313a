import type { EnqueueOptions } from "../enqueue/enqueue-options.js";
import { type Admission, prepareJob } from "../enqueue/prepare-job.js";
import { QueueError } from "../errors.js";
import type { JobMap, PayloadInput } from "../registry/job-definition.js";
import {
  checkNumber,
  checkText,
  invalidOption,
  isObject,
  refuseUnknownOptions,
} from "../registry/option-checks.js";
import { type Occurrences, occurrencesOf } from "./occurrences.js";

/** One time at which a schedule is due. */
export interface Occurrence {
  /** The name of the schedule. */
  readonly schedule: string;
  /** The time of the pattern, whatever the time is by now. */
  readonly dueAt: Date;
}

/** What can be said of the job of an occurrence beside its payload, as in `enqueue`. */
export interface OccurrenceOptions
  extends Omit<EnqueueOptions, "runAt" | "delayMs" | "idempotencyKey"> {
  /** Null for none: any other would be the same at each occurrence. @default what the job's definition derives from the payload */
  readonly idempotencyKey?: null | undefined;
}

/** What gives a schedule's payload: the payload itself, or a function of the occurrence. */
type PayloadSource<I> = unknown extends I
  ? // With `any` or `unknown` beside it, the function's parameter would have no type.
      | string
      | number
      | boolean
      | null
      | readonly unknown[]
      | { readonly [key: string]: unknown }
      | ((occurrence: Occurrence) => unknown)
  : I | ((occurrence: Occurrence) => I);

/** Left out where the job takes none. */
type SchedulePayload<I> = undefined extends I
  ? {
      /** The job takes none. */
      readonly payload?: PayloadSource<I> | undefined;
    }
  : {
      /**
       * The payload, or what gives it for an occurrence. Called when the scheduler is created too, for the next
       * occurrence and, where there is a key, for one a year later, so that a mistake shows then; it must do nothing else.
       */
      readonly payload: PayloadSource<I>;
    };

/** A job that is enqueued at each occurrence. */
export type ScheduleOf<M extends JobMap, N extends keyof M & string> = ScheduleSettings<N> &
  SchedulePayload<PayloadInput<M[N]>>;

/** When a job is enqueued, and how. */
export interface ScheduleSettings<N extends string> {
  /** The job's name in the registry. */
  readonly job: N;
  /**
   * When: minute, hour, day of the month, month, day of the week, such as `"30 2 * * 1-5"`; with a sixth field
   * in front, seconds, and a seventh at the end, the year; or `@daily` and its like. Where both days are given, either will do.
   */
  readonly cron: string;
  /** The zone that `cron` is read in, such as `"Europe/Berlin"`. @default "UTC" */
  readonly timeZone?: string | undefined;
  /** @default what the job's definition says */
  readonly options?: OccurrenceOptions | undefined;
  /** Whether an occurrence is skipped while the job of the one before has not ended. @default "allow" */
  readonly overlap?: "allow" | "skip" | undefined;
  /**
   * How late an occurrence is still enqueued, in milliseconds, 1,000 or more, whatever kept it waiting.
   * Of several missed ones only the latest is. @default however late
   */
  readonly maxLateMs?: number | undefined;
}

/** The schedules of an app, by name: 1 to 128 bytes, and for good, since the name's row tells how far it has come. */
export type Schedules<M extends JobMap> = Readonly<
  Record<string, { [N in keyof M & string]: ScheduleOf<M, N> }[keyof M & string]>
>;

/** A schedule, checked and complete. */
export interface CheckedSchedule {
  readonly name: string;
  readonly job: string;
  readonly occurrences: Occurrences;
  readonly payloadAt: (dueMs: number) => unknown;
  readonly options: OccurrenceOptions;
  readonly skipsOverlap: boolean;
  readonly maxLateMs: number;
}

type Given = ScheduleSettings<string> & { readonly payload?: unknown };

const OPTIONS = ["job", "cron", "timeZone", "payload", "options", "overlap", "maxLateMs"] as const;

const ENQUEUE_OPTIONS = ["priority", "idempotencyKey", "maxAttempts", "queue"] as const;

const NOT_HERE = new Map([
  ...["runAt", "delayMs"].map((option) => hint(option, "Its job is due at its occurrence.")),
  ...ENQUEUE_OPTIONS.map((option) => hint(option, "It belongs into the schedule's `options`.")),
  hint("timezone", "It is `timeZone`."),
]);

function hint(option: string, text: string): readonly [string, string] {
  return [option, text];
}

/** A year of whole weeks: a key that comes again with the hour, the day of the week or the month is the same then. */
const YEAR_MS = 364 * 86_400_000;

/**
 * Checks the schedules of an app, and tries each of them.
 *
 * @throws {QueueError} `INVALID_OPTION`, `UNKNOWN_JOB` or `INVALID_PAYLOAD`; what an app's function throws passes through.
 */
export function checkSchedules(
  admission: Admission,
  schedules: unknown,
): readonly CheckedSchedule[] {
  if (!isPlainObject(schedules) || Object.keys(schedules).length === 0)
    throw new QueueError(
      "INVALID_OPTION",
      "createScheduler(): schedules must be an object with a schedule or more, by their names.",
    );
  return Object.entries(schedules).map(([name, given]) => {
    checkText("createScheduler(): a schedule's name", name);
    const schedule = checkSchedule(name, given as Given);
    named(name, () => tryOut(admission, schedule));
    return schedule;
  });
}

/** Neither a list, whose names are numbers, nor what `{ __proto__: … }` makes, which loses that schedule. */
function isPlainObject(value: unknown): value is object {
  if (!isObject(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** Says of which schedule an error is: enqueueing knows only of jobs. */
function named(name: string, check: () => void): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    throw new QueueError(error.code, `schedules.${name}: ${error.message}`, {
      issues: error.issues,
      cause: error,
    });
  }
}

function checkSchedule(name: string, given: Given): CheckedSchedule {
  const where = `schedules.${name}`;
  refuseUnknownOptions(where, given, OPTIONS, NOT_HERE);
  const {
    job,
    cron,
    timeZone = "UTC",
    payload,
    options = {},
    overlap = "allow",
    maxLateMs,
  } = given;
  refuseUnknownOptions(`${where}.options`, options, ENQUEUE_OPTIONS, NOT_HERE);
  if (overlap !== "allow" && overlap !== "skip")
    throw invalidOption(`${where}.overlap`, '"allow" or "skip"', overlap);
  if (maxLateMs !== undefined)
    checkNumber(`${where}.maxLateMs`, maxLateMs, 1_000, Number.MAX_SAFE_INTEGER);
  return {
    name,
    job,
    occurrences: occurrencesOf(where, cron, timeZone),
    payloadAt: (dueMs) =>
      typeof payload === "function"
        ? payloadOf(where, payload as PayloadFunction, { schedule: name, dueAt: new Date(dueMs) })
        : payload,
    options,
    skipsOverlap: overlap === "skip",
    maxLateMs: maxLateMs ?? Number.POSITIVE_INFINITY,
  };
}

type PayloadFunction = (occurrence: Occurrence) => unknown;

function payloadOf(where: string, payload: PayloadFunction, occurrence: Occurrence): unknown {
  const given = payload(occurrence);
  if (!(given instanceof Promise)) return given;
  // Nobody awaits it, so its rejection would end the process.
  given.catch(() => undefined);
  throw new QueueError("INVALID_OPTION", `${where}.payload must not be an async function.`);
}

/** What would be enqueued next must be valid, and its key, if it has one, not be that of a year later. */
function tryOut(admission: Admission, schedule: CheckedSchedule): void {
  const { job, occurrences, payloadAt, options } = schedule;
  const keyAt = (dueMs: number | undefined): string | null =>
    dueMs === undefined
      ? null
      : prepareJob(admission, job, payloadAt(dueMs), options).idempotencyKey;
  const first = occurrences.nextAfter(Date.now());
  const key = keyAt(first);
  if (first === undefined || key === null) return;
  const later = occurrences.nextAfter(first + YEAR_MS - 1) ?? occurrences.nextAfter(first);
  if (key === keyAt(later))
    throw new QueueError(
      "INVALID_OPTION",
      `Its idempotency key is the same at its next occurrence and at one a year later, so not each would become a job. Let the payload, or the key that job "${job}" derives from it, depend on dueAt, or set options.idempotencyKey to null.`,
    );
}
