import { invalidOption, refuseUnknownOptions } from "../registry/option-checks.js";
import type { JobOutcome } from "../schema/job-states.js";
import type { DoneRetention } from "./settlement.js";

/** A time that rows are kept for. */
export interface Days {
  /** More than 0, up to 36,500; fractions are allowed. */
  readonly days: number;
}

/**
 * How long rows are kept that nobody works on any more; `"keep"` is for ever.
 *
 * Where workers differ, the shortest time holds: each prunes all jobs of the tables.
 */
export interface Retention {
  /**
   * Done jobs; 0 deletes each in the statement that completes it, and after 7 days
   * what is there all the same, such as rows that an app's foreign key held. @default { days: 7 }
   */
  readonly done?: "keep" | 0 | Days | undefined;
  /** Failed jobs. A key of such a job is free again once its row is gone. @default { days: 30 } */
  readonly failed?: "keep" | Days | undefined;
  /** Cancelled jobs, the same. @default { days: 30 } */
  readonly cancelled?: "keep" | Days | undefined;
  /**
   * Processed keys: how long a key stays taken after its job was done. It is
   * written with the key, so a change counts for later ones. @default "keep"
   */
  readonly processedKeys?: "keep" | Days | undefined;
}

/** The retention with every default filled in. */
export interface CheckedRetention {
  /** What settling does with a done job's row. */
  readonly onDone: DoneRetention;
  /** How old a row of each outcome may get, in milliseconds; null: any age. */
  readonly jobsMs: Readonly<Record<JobOutcome, number | null>>;
  readonly processedKeysMs: number | null;
}

const DAY_MS = 86_400_000;
const MAX_DAYS = 36_500;
const WEEK: Days = { days: 7 };
const MONTH: Days = { days: 30 };
const KNOWN = ["done", "failed", "cancelled", "processedKeys"] as const;

/** @throws {QueueError} `INVALID_OPTION` that names the option. */
export function checkRetention(given: Retention = {}): CheckedRetention {
  refuseUnknownOptions("createWorker(): retention", given, KNOWN);
  const { done = WEEK, failed = MONTH, cancelled = MONTH, processedKeys = "keep" } = given;
  return {
    onDone: done === 0 ? 0 : "keep",
    jobsMs: {
      done: ageMs("done", done === 0 ? WEEK : done, '"keep", 0 or { days }'),
      failed: ageMs("failed", failed),
      cancelled: ageMs("cancelled", cancelled),
    },
    processedKeysMs: ageMs("processedKeys", processedKeys),
  };
}

function ageMs(of: string, given: "keep" | Days, must = '"keep" or { days }'): number | null {
  const option = `createWorker(): retention.${of}`;
  if (given === "keep") return null;
  if (typeof given !== "object" || given === null) throw invalidOption(option, must, given);
  refuseUnknownOptions(option, given, ["days"]);
  const { days } = given;
  if (typeof days === "number" && days > 0 && days <= MAX_DAYS) return days * DAY_MS;
  throw invalidOption(`${option}.days`, `a number of more than 0, up to ${MAX_DAYS}`, days);
}
