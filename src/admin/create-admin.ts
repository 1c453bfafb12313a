import { type CancelAnswer, cancelJobs } from "../queries/cancel-jobs.js";
import { countJobs, type JobCounts } from "../queries/count-jobs.js";
import type { PgExecutor } from "../queries/executor.js";
import { getJob } from "../queries/get-job.js";
import { listJobs } from "../queries/list-jobs.js";
import { type PauseAnswer, type PausedQueue, queueControls } from "../queries/queue-controls.js";
import { type RequeueAnswer, requeueJobs } from "../queries/requeue-jobs.js";
import { type RunNowAnswer, runJobsNow } from "../queries/run-jobs-now.js";
import {
  type PauseScheduleAnswer,
  type ResumeScheduleAnswer,
  type StoredSchedule,
  scheduleControls,
} from "../queries/schedule-controls.js";
import type { StoredJobDetails } from "../queries/stored-job.js";
import {
  checkInteger,
  checkText,
  invalidOption,
  isObject,
  refuseUnknownOptions,
} from "../registry/option-checks.js";
import type { TableNames } from "../schema/table-names.js";
import { checkId, executorOf } from "./arguments.js";
import { changesOf, type JobAnswer } from "./change-jobs.js";
import {
  checkFilter,
  type JobFilter,
  type JobPage,
  type NamedFilter,
  writeCursor,
} from "./job-pages.js";

/**
 * What an operator may do with jobs, queues and schedules.
 *
 * Each function takes the app's database, or a transaction: then what it writes is
 * committed with the rest of that. It can be taken out of the object and used alone.
 */
export interface Admin<N extends string = string> {
  /** Reads one job with its payload, result and errors; undefined where there is none of this id. */
  readonly getJob: (db: PgExecutor, id: number) => Promise<StoredJobDetails | undefined>;

  /**
   * Lists the jobs of one state: queued and running ones queue by queue in the order in which
   * workers take them, the others the latest first.
   *
   * A page looks at 20,000 rows of an index at most. Where few of them fit the filter, it holds fewer
   * than `limit` although there are more: `next` tells. On a table without statistics it may sort instead.
   *
   * @throws {QueueError} `INVALID_OPTION` when an option is unknown or out of its range.
   * @example
   * let after: string | undefined;
   * do {
   *   const page = await admin.listJobs(db, { status: "failed", name: "report", after });
   *   await admin.requeueMany(db, page.jobs.map((job) => job.id));
   *   after = page.next ?? undefined;
   * } while (after !== undefined);
   */
  readonly listJobs: (db: PgExecutor, filter: JobFilter & NamedFilter<N>) => Promise<JobPage>;

  /**
   * Counts the jobs that have not ended, and those that failed, by queue and name.
   *
   * @throws {QueueError} `INVALID_OPTION` when an option is unknown or out of its range.
   */
  readonly countJobs: (
    db: PgExecutor,
    options?: {
      /** How many rows are counted of each queue and priority, and of failed jobs: 1 to 1,000,000. @default 10_000 */
      readonly limit?: number | undefined;
    },
  ) => Promise<readonly JobCounts[]>;

  /**
   * Cancels a job that waits, or asks its worker to end one that runs.
   *
   * The worker learns of it at its next renewal, a third of `leaseMs` away at most, and aborts the handler
   * (`signal.reason` is `JOB_CANCELLED`); then the job is cancelled, whatever attempts are left. An attempt
   * that succeeds before that has won: its job is done. The idempotency key stays taken while the row is there.
   *
   * In a transaction of a stricter isolation than READ COMMITTED a job that has changed meanwhile is an error (40001).
   *
   * @throws {QueueError} `INVALID_OPTION` when `id` is no id. Errors of the database pass through.
   */
  readonly cancel: (db: PgExecutor, id: number) => Promise<CancelAnswer>;

  /** The same for any number of jobs; answers in their order. One that cannot be cancelled hinders no other. */
  readonly cancelMany: (
    db: PgExecutor,
    ids: readonly number[],
  ) => Promise<readonly JobAnswer<CancelAnswer>[]>;

  /**
   * Makes a failed or cancelled job queued again, due at once and with all its attempts.
   *
   * Its errors and its key stay. One that is done is not repeated: enqueue another job for that. The handler of a
   * cancelled job that ignores its `signal` may still run when it starts again; what it writes in `commit` is refused.
   *
   * @throws {QueueError} `INVALID_OPTION` when `id` is no id. Errors of the database pass through.
   */
  readonly requeue: (db: PgExecutor, id: number) => Promise<RequeueAnswer>;

  /** The same for any number of jobs; answers in their order. */
  readonly requeueMany: (
    db: PgExecutor,
    ids: readonly number[],
  ) => Promise<readonly JobAnswer<RequeueAnswer>[]>;

  /**
   * Makes a job due that waits for its time: for `runAt`, for a delay, or for its next attempt.
   *
   * @throws {QueueError} `INVALID_OPTION` when `id` is no id. Errors of the database pass through.
   */
  readonly runNow: (db: PgExecutor, id: number) => Promise<RunNowAnswer>;

  /** The same for any number of jobs; answers in their order. */
  readonly runNowMany: (
    db: PgExecutor,
    ids: readonly number[],
  ) => Promise<readonly JobAnswer<RunNowAnswer>[]>;

  /**
   * Lets no worker claim from a queue until it is resumed, over any restart.
   *
   * Jobs can be enqueued meanwhile, and wait; so do those of a worker that is lost. Handlers that run go on. What a
   * worker has fetched ahead it gives back when it learns of the pause: in a second or two, or with its
   * next claim where nobody listens. Another call for this queue, in a transaction that is still open, is waited for.
   *
   * @throws {QueueError} `INVALID_OPTION` when `queue` is no name of 1 to 128 bytes. Errors of the database pass through.
   */
  readonly pauseQueue: (db: PgExecutor, queue: string) => Promise<PauseAnswer>;

  /**
   * Ends the pause of a queue, and wakes workers.
   *
   * @returns Whether it was paused.
   * @throws {QueueError} `INVALID_OPTION` when `queue` is no name of 1 to 128 bytes. Errors of the database pass through.
   */
  readonly resumeQueue: (db: PgExecutor, queue: string) => Promise<boolean>;

  /** Tells which queues are paused, by name. */
  readonly listPausedQueues: (db: PgExecutor) => Promise<readonly PausedQueue[]>;

  /**
   * Keeps schedulers from enqueueing a schedule's occurrences until it is resumed, over any restart.
   *
   * From its commit on none is enqueued; jobs that are there run. A scheduler that is just enqueueing one is waited for,
   * ten seconds at most, and so is another call for this schedule in a transaction that is still open.
   *
   * @throws {QueueError} `INVALID_OPTION` when `name` is no name of 1 to 128 bytes. Errors of the database pass through.
   */
  readonly pauseSchedule: (db: PgExecutor, name: string) => Promise<PauseScheduleAnswer>;

  /**
   * Ends the pause of a schedule. The occurrences that fell into it are not made up for.
   *
   * @throws {QueueError} `INVALID_OPTION` when `name` is no name of 1 to 128 bytes. Errors of the database pass through.
   */
  readonly resumeSchedule: (db: PgExecutor, name: string) => Promise<ResumeScheduleAnswer>;

  /**
   * Tells how far each schedule has come that a scheduler has ever seen, by name.
   *
   * Where `nextDueAt` lies well in the past and nothing is paused, either no scheduler runs, or the schedule
   * is no longer in the code: its row may be deleted then.
   */
  readonly listSchedules: (db: PgExecutor) => Promise<readonly StoredSchedule[]>;
}

/** Of definitions only the queue is asked for. */
type AnyJobs = Readonly<Record<string, { readonly queue: string }>>;

const QUEUE_ITSELF = new Map([["jobs", "Pass the queue by its name: createAdmin({ queue })."]]);

/**
 * Makes the functions of an operator for the tables of a queue. Opens no connection.
 *
 * Each function rejects with {@link QueueError} `TABLES_MISSING` where the queue's tables are not there.
 *
 * @throws {QueueError} `INVALID_OPTION` when `queue` is not one of `createQueue`.
 * @example
 * const admin = createAdmin({ queue });
 * await db.transaction(async (tx) => {
 *   await tx.delete(reports).where(eq(reports.id, id));
 *   await admin.cancel(tx, jobId);
 * });
 */
export function createAdmin<const M extends AnyJobs>(options: {
  readonly queue: { readonly jobs: M; readonly tables: TableNames };
}): Admin<keyof M & string> {
  refuseUnknownOptions("createAdmin()", options, ["queue"], QUEUE_ITSELF);
  const { queue } = options;
  if (!isObject(queue) || !isObject(queue.jobs) || !isObject(queue.tables))
    throw invalidOption("createAdmin(): queue", "what createQueue() gives", queue);
  const { tables } = queue;
  const defined = new Set(Object.values(queue.jobs).map((definition) => definition.queue));
  const get = getJob(tables);
  const list = listJobs(tables);
  const count = countJobs(tables);
  const queues = queueControls(tables);
  const schedules = scheduleControls(tables);
  const cancel = changesOf("cancel", cancelJobs(tables), tables);
  const requeue = changesOf("requeue", requeueJobs(tables), tables);
  const runNow = changesOf("runNow", runJobsNow(tables), tables);
  return Object.freeze<Admin<keyof M & string>>({
    async getJob(db, id) {
      checkId("getJob(): id", id);
      return get(executorOf("getJob", db, tables), id);
    },
    async listJobs(db, filter) {
      const request = checkFilter(filter);
      const { jobs, next } = await list(executorOf("listJobs", db, tables), request);
      return { jobs, next: next === null ? null : writeCursor(request, next) };
    },
    async countJobs(db, options = {}) {
      refuseUnknownOptions("countJobs()", options, ["limit"]);
      const { limit = 10_000 } = options;
      checkInteger("countJobs(): limit", limit, 1, 1_000_000);
      return count(executorOf("countJobs", db, tables), limit);
    },
    cancel: cancel.one,
    cancelMany: cancel.many,
    requeue: requeue.one,
    requeueMany: requeue.many,
    runNow: runNow.one,
    runNowMany: runNow.many,
    async pauseQueue(db, name) {
      checkText("pauseQueue(): queue", name);
      return queues.pause(executorOf("pauseQueue", db, tables), name, defined.has(name));
    },
    async resumeQueue(db, name) {
      checkText("resumeQueue(): queue", name);
      return queues.resume(executorOf("resumeQueue", db, tables), name);
    },
    async listPausedQueues(db) {
      return queues.list(executorOf("listPausedQueues", db, tables));
    },
    async pauseSchedule(db, name) {
      checkText("pauseSchedule(): name", name);
      return schedules.pause(executorOf("pauseSchedule", db, tables), name);
    },
    async resumeSchedule(db, name) {
      checkText("resumeSchedule(): name", name);
      return schedules.resume(executorOf("resumeSchedule", db, tables), name);
    },
    async listSchedules(db) {
      return schedules.list(executorOf("listSchedules", db, tables));
    },
  });
}
