import { QueueError } from "../errors.js";
import type { Instrumentation } from "../instrumentation/instrumentation.js";
import type { JobMap } from "../registry/job-definition.js";
import {
  checkFunction,
  checkInteger,
  checkText,
  invalidOption,
  isObject,
  MAX_INT32,
  refuseUnknownOptions,
} from "../registry/option-checks.js";
import { type CheckedRetention, checkRetention, type Retention } from "./retention.js";

/** What a worker can be told, beside queue, database and handlers. */
export interface WorkerSettings {
  /** How many handlers run at once: 1 to 10,000. @default 10 */
  readonly concurrency?: number | undefined;
  /** The queues to serve: one or more, each of 1 to 128 bytes. @default those that the served jobs' definitions name */
  readonly queues?: readonly string[] | undefined;
  /**
   * How long to wait before looking for jobs when none was there and nobody
   * notifies, in milliseconds: 10 to 3,600,000. Jobs that nobody notifies of, such as
   * those of a killed or stopped worker, are found at this pace. @default 1_000
   */
  readonly pollIntervalMs?: number | undefined;
  /**
   * How long rows of ended jobs are kept. @default done jobs 7 days, failed and
   * cancelled ones 30, processed keys for ever
   */
  readonly retention?: Retention | undefined;
  /**
   * Whether connections go through a pooler in transaction mode, such as
   * PgBouncer: no named statements, no session settings, no LISTEN. @default false
   */
  readonly throughPooler?: boolean | undefined;
  /** Receives this worker's events. @default the queue's instrumentation */
  readonly instrumentation?: Instrumentation | undefined;
}

/** The settings of a worker with every default filled in. */
export interface CheckedSettings {
  readonly concurrency: number;
  readonly queues: readonly string[];
  readonly pollIntervalMs: number;
  readonly retention: CheckedRetention;
  readonly throughPooler: boolean;
}

interface RequiredOptions {
  readonly queue: unknown;
  readonly db: unknown;
  readonly handlers: unknown;
}

/**
 * Checks that what a worker cannot do without is there.
 *
 * @throws {QueueError} `INVALID_OPTION` that names the option.
 */
export function checkRequired({ queue, db, handlers }: RequiredOptions): void {
  if (!isObject(queue) || !("jobs" in queue) || !("tables" in queue))
    throw invalidOption("createWorker(): queue", "made by createQueue()", queue);
  if (!isObject(db) || typeof (db as { transaction?: unknown }).transaction !== "function")
    throw invalidOption("createWorker(): db", "a Drizzle database, such as drizzle(pool)", db);
  if (!isObject(handlers))
    throw invalidOption(
      "createWorker(): handlers",
      "an object with a function for each job",
      handlers,
    );
}

/**
 * Fills in defaults and checks every setting.
 *
 * @throws {QueueError} `INVALID_OPTION` that names the setting.
 */
export function checkSettings(
  given: WorkerSettings,
  jobs: JobMap,
  names: readonly string[],
): CheckedSettings {
  const {
    concurrency = 10,
    pollIntervalMs = 1_000,
    throughPooler = false,
    queues = names.map((name) => jobs[name]?.queue ?? "default"),
  } = given;
  checkInteger("createWorker(): concurrency", concurrency, 1, 10_000);
  checkInteger("createWorker(): pollIntervalMs", pollIntervalMs, 10, 3_600_000);
  if (typeof throughPooler !== "boolean") {
    throw invalidOption("createWorker(): throughPooler", "true or false", throughPooler);
  }
  if (given.instrumentation !== undefined)
    checkFunction("createWorker(): instrumentation.event", given.instrumentation?.event);
  return {
    concurrency,
    queues: checkQueues(queues),
    pollIntervalMs,
    retention: checkRetention(given.retention),
    throughPooler,
  };
}

function checkQueues(queues: readonly string[]): readonly string[] {
  if (!Array.isArray(queues) || queues.length === 0) {
    throw invalidOption("createWorker(): queues", "a list of at least one queue name", queues);
  }
  for (const queue of queues) checkText("createWorker(): queues", queue);
  return [...new Set(queues)];
}

/**
 * The job names that a worker serves.
 *
 * @throws {QueueError} `UNKNOWN_JOB` when `only` names a job that is not in the registry,
 *   `INVALID_OPTION` when there is none to serve.
 */
export function servedNames(
  jobs: JobMap,
  only: readonly string[] = Object.keys(jobs),
): readonly string[] {
  if (Object.keys(jobs).length === 0)
    throw invalidOption("createWorker(): queue.jobs", "a registry of at least one job", jobs);
  if (!Array.isArray(only) || only.length === 0) {
    throw invalidOption("createWorker(): only", "a list of at least one job name", only);
  }
  for (const name of only) {
    if (!Object.hasOwn(jobs, name)) {
      throw new QueueError(
        "UNKNOWN_JOB",
        `createWorker(): only names "${String(name)}", which is not in the registry.`,
      );
    }
  }
  return [...new Set(only)];
}

/** How long `stop` waits for handlers when not told, in milliseconds. */
const DEFAULT_GRACE_MS = 30_000;

/** @throws {QueueError} `INVALID_OPTION` when the grace period is not a number from 0 to 2,147,483,647. */
export function checkGrace(
  given: { readonly gracePeriodMs?: number | undefined } | undefined,
): number {
  // As a listener of a signal, `stop` is called with the signal's name.
  const options = typeof given === "object" ? given : {};
  refuseUnknownOptions("stop()", options, ["gracePeriodMs"]);
  const { gracePeriodMs = DEFAULT_GRACE_MS } = options;
  checkInteger("stop(): gracePeriodMs", gracePeriodMs, 0, MAX_INT32);
  return gracePeriodMs;
}
