import type { Instrumentation } from "../instrumentation/instrumentation.js";
import { drizzleExecutor, type Executor } from "../queries/executor.js";
import type { ServedJobs } from "../queries/find-jobs-left.js";
import { explainingMissingTables } from "../queries/missing-tables.js";
import { isTransaction, type PgDatabase } from "../queries/transaction.js";
import type { JobMap } from "../registry/job-definition.js";
import {
  checkInteger,
  invalidOption,
  MAX_INT32,
  refuseUnknownOptions,
} from "../registry/option-checks.js";
import { createAlarm } from "../worker/alarm.js";
import { after } from "../worker/clock.js";
import { createWorker, type WorkerOptions, type WorkerQueue } from "../worker/create-worker.js";
import { checkSettings, servedNames } from "../worker/worker-options.js";
import { createDrain, type Drain } from "./drain.js";
import { createDrainLog, type DrainLog, type DrainReport } from "./drain-log.js";
import { refuseFakeTimers } from "./fake-timers.js";

/** What {@link drainJobs} takes. */
export interface DrainOptions<M extends JobMap, DB extends PgDatabase, N extends keyof M & string>
  extends Pick<WorkerOptions<M, DB, N>, "queue" | "db" | "handlers" | "only" | "queues"> {
  /** How many handlers run at once: 1 to 10,000. @default 1, one after the other in the order of a worker */
  readonly concurrency?: number | undefined;
  /**
   * Whether jobs are run that wait for their time when the call begins, and the next attempts of
   * those that error. What is snoozed, or enqueued for later, meanwhile waits for its time. @default false
   */
  readonly runsScheduled?: boolean | undefined;
  /**
   * How long it may take, in milliseconds: 1 to 2,147,483,647. A handler that hangs is then
   * aborted, and given one more second. @default 2_500: with that, less than test runners give a test
   */
  readonly timeoutMs?: number | undefined;
}

type Tables = WorkerQueue<JobMap>["tables"];

const OPTIONS = [
  "queue",
  "db",
  "handlers",
  "only",
  "queues",
  "concurrency",
  "runsScheduled",
  "timeoutMs",
] as const;

/** How often a worker of a test looks for jobs that nobody notifies of, in milliseconds. */
const POLL_INTERVAL_MS = 10;
/** A test's rows are the test's. */
const KEEP_ALL = {
  done: "keep",
  failed: "keep",
  cancelled: "keep",
  processedKeys: "keep",
} as const;

/**
 * Runs every job that is due, and those that these enqueue, until none is left, and tells how they ended.
 *
 * A worker does it, with all that is promised of one, and has stopped by the time this settles. It
 * sees what is committed. It waits neither for jobs that other workers hold, nor, unless
 * told, for those that are due later; so two calls at once on one database share its jobs.
 *
 * @throws {QueueError} As a rejection: what `createWorker` and `start` say;
 *   `INVALID_OPTION` also where the test's timers are fake; `TEST_TIMED_OUT`, naming the jobs
 *   that are left. Errors of the database pass through.
 * @example
 * import { drainJobs } from "drizzle-queue/testing";
 *
 * const report = await drainJobs({ queue, db, handlers });
 * if (report.failed.length > 0) throw new Error(report.failed[0]?.error.message);
 */
export async function drainJobs<
  M extends JobMap,
  DB extends PgDatabase,
  const N extends keyof M & string = keyof M & string,
>(options: DrainOptions<M, DB, N>): Promise<DrainReport<N>> {
  refuseUnknownOptions("drainJobs()", options, OPTIONS);
  refuseFakeTimers("drainJobs()");
  const { runsScheduled = false, timeoutMs = 2_500, concurrency = 1, ...served } = options;
  checkOptions({ runsScheduled, timeoutMs, db: options.db });
  const alarm = createAlarm();
  const log = createDrainLog(alarm.ring);
  const worker = createWorker({
    ...served,
    concurrency,
    pollIntervalMs: POLL_INTERVAL_MS,
    retention: KEEP_ALL,
    instrumentation: tellingBoth(log, options),
  });
  const { tables } = options.queue;
  const drain = createDrain({
    worker,
    executor: appExecutor(options.db, tables),
    tables,
    served: servedJobs(options),
    log,
    alarm,
    runsScheduled,
  });
  try {
    await within(timeoutMs, drain);
  } finally {
    drain.end();
    await worker.stop({ gracePeriodMs: 0 });
  }
  // After the stop: by then the worker has told of everything.
  return log.report() as DrainReport<N>;
}

const tellingBoth = (log: DrainLog, of: Served): Instrumentation => ({
  event(event) {
    log.event(event);
    // Given back, since it may be a promise whose rejection somebody has to trap.
    return of.queue.instrumentation?.event(event);
  },
});

/** The app's database; without the tables its error says what to do, as a worker's does. */
function appExecutor(db: PgDatabase, tables: Tables): Executor {
  return explainingMissingTables(drizzleExecutor(db), tables);
}

interface Served {
  readonly queue: WorkerQueue<JobMap>;
  readonly only?: readonly string[] | undefined;
  readonly queues?: readonly string[] | undefined;
}

/** What a worker with these options serves. */
function servedJobs({ queue: { jobs }, only, queues }: Served): ServedJobs {
  const names = servedNames(jobs, only);
  return { names, queues: checkSettings({ queues }, jobs, names).queues };
}

interface Checked {
  readonly runsScheduled: unknown;
  readonly timeoutMs: unknown;
  readonly db: unknown;
}

function checkOptions({ runsScheduled, timeoutMs, db }: Checked): void {
  if (typeof runsScheduled !== "boolean")
    throw invalidOption("drainJobs(): runsScheduled", "true or false", runsScheduled);
  checkInteger("drainJobs(): timeoutMs", timeoutMs, 1, MAX_INT32);
  if (isTransaction(db))
    throw invalidOption(
      "drainJobs(): db",
      "the database, not a transaction, whose jobs no worker sees before it commits",
      db,
    );
}

async function within(timeoutMs: number, drain: Drain): Promise<void> {
  let callOff = (): void => {};
  const deadline = new Promise<never>((_, reject) => {
    callOff = after(timeoutMs, () => void drain.timedOut(timeoutMs).then(reject));
  });
  try {
    await Promise.race([drain.run(), deadline]);
  } finally {
    callOff();
  }
}
