import { type CancelAnswer, cancelJobs } from "../queries/cancel-jobs.js";
import { countJobs, type JobCounts } from "../queries/count-jobs.js";
import { drizzleExecutor, type Executor, type PgExecutor } from "../queries/executor.js";
import { getJob } from "../queries/get-job.js";
import { listJobs } from "../queries/list-jobs.js";
import { type PausedQueue, queueControls } from "../queries/queue-controls.js";
import { type RequeueAnswer, requeueJobs } from "../queries/requeue-jobs.js";
import type { StoredJobDetails } from "../queries/stored-job.js";
import {
  checkInteger,
  checkText,
  invalidOption,
  isObject,
  refuseUnknownOptions,
} from "../registry/option-checks.js";
import type { TableNames } from "../schema/table-names.js";
import { changeJobs } from "./change-jobs.js";
import { checkFilter, type JobFilter, type JobPage, writeCursor } from "./job-pages.js";

/** Has the editor propose the names of the registry, where jobs of others may be meant. */
interface Named<N extends string> {
  readonly name?: N | (string & {}) | undefined;
}

/**
 * What an operator may do with jobs.
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
   * A page looks at 20,000 rows of an index at most, so its cost does not grow with the table. Where
   * few of them fit the filter, it holds fewer than `limit` although there are more: `next` tells.
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
  readonly listJobs: (db: PgExecutor, filter: JobFilter & Named<N>) => Promise<JobPage>;

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
   * @throws {QueueError} `INVALID_OPTION` when `id` is no id. Errors of the database pass through.
   */
  readonly cancel: (db: PgExecutor, id: number) => Promise<CancelAnswer>;

  /** The same for any number of jobs; answers in their order. One that cannot be cancelled hinders no other. */
  readonly cancelMany: (
    db: PgExecutor,
    ids: readonly number[],
  ) => Promise<readonly { readonly id: number; readonly answer: CancelAnswer }[]>;

  /**
   * Makes a failed or cancelled job queued again, due at once and with all its attempts.
   *
   * Its errors and its key stay. One that is done is not repeated: enqueue another job for that.
   *
   * @throws {QueueError} `INVALID_OPTION` when `id` is no id. Errors of the database pass through.
   */
  readonly requeue: (db: PgExecutor, id: number) => Promise<RequeueAnswer>;

  /** The same for any number of jobs; answers in their order. */
  readonly requeueMany: (
    db: PgExecutor,
    ids: readonly number[],
  ) => Promise<readonly { readonly id: number; readonly answer: RequeueAnswer }[]>;

  /**
   * Lets no worker claim from a queue until it is resumed, over any restart.
   *
   * Jobs can be enqueued meanwhile, and wait. What workers hold already goes on: handlers that run, and what
   * was fetched ahead for the next 50 ms. Jobs of a worker that is lost wait for the end of the pause too.
   *
   * @returns Whether it was not paused before.
   * @throws {QueueError} `INVALID_OPTION` when `queue` is no name of 1 to 128 bytes. Errors of the database pass through.
   */
  readonly pauseQueue: (db: PgExecutor, queue: string) => Promise<boolean>;

  /**
   * Ends the pause of a queue, and wakes workers.
   *
   * @returns Whether it was paused.
   * @throws {QueueError} `INVALID_OPTION` when `queue` is no name of 1 to 128 bytes. Errors of the database pass through.
   */
  readonly resumeQueue: (db: PgExecutor, queue: string) => Promise<boolean>;

  /** Tells which queues are paused, by name. */
  readonly listPausedQueues: (db: PgExecutor) => Promise<readonly PausedQueue[]>;
}

/**
 * Makes the functions of an operator for the tables of a queue. Opens no connection.
 *
 * @throws {QueueError} `INVALID_OPTION` when `queue` is not one of `createQueue`.
 * @example
 * const admin = createAdmin({ queue });
 * await db.transaction(async (tx) => {
 *   await tx.delete(reports).where(eq(reports.id, id));
 *   await admin.cancel(tx, jobId);
 * });
 */
export function createAdmin<const M extends object>(options: {
  readonly queue: { readonly jobs: M; readonly tables: TableNames };
}): Admin<keyof M & string> {
  refuseUnknownOptions("createAdmin()", options, ["queue"]);
  const { queue } = options;
  if (!isObject(queue) || !isObject(queue.tables))
    throw invalidOption("createAdmin(): queue", "what createQueue() gives", queue);
  const { tables } = queue;
  const run = {
    get: getJob(tables),
    list: listJobs(tables),
    count: countJobs(tables),
    cancel: cancelJobs(tables),
    requeue: requeueJobs(tables),
    queues: queueControls(tables),
  };
  return Object.freeze<Admin<keyof M & string>>({
    async getJob(db, id) {
      checkId("getJob(): id", id);
      return run.get(executorOf("getJob", db), id);
    },
    async listJobs(db, filter) {
      const { jobs, next } = await run.list(executorOf("listJobs", db), checkFilter(filter));
      return { jobs, next: next === null ? null : writeCursor(next) };
    },
    async countJobs(db, options = {}) {
      refuseUnknownOptions("countJobs()", options, ["limit"]);
      const { limit = 10_000 } = options;
      checkInteger("countJobs(): limit", limit, 1, 1_000_000);
      return run.count(executorOf("countJobs", db), limit);
    },
    async cancel(db, id) {
      checkId("cancel(): id", id);
      return one(await changeJobs(executorOf("cancel", db), run.cancel, [id]));
    },
    async cancelMany(db, ids) {
      checkIds("cancelMany(): ids", ids);
      return changeJobs(executorOf("cancelMany", db), run.cancel, ids);
    },
    async requeue(db, id) {
      checkId("requeue(): id", id);
      return one(await changeJobs(executorOf("requeue", db), run.requeue, [id]));
    },
    async requeueMany(db, ids) {
      checkIds("requeueMany(): ids", ids);
      return changeJobs(executorOf("requeueMany", db), run.requeue, ids);
    },
    async pauseQueue(db, name) {
      checkText("pauseQueue(): queue", name);
      return run.queues.pause(executorOf("pauseQueue", db), name);
    },
    async resumeQueue(db, name) {
      checkText("resumeQueue(): queue", name);
      return run.queues.resume(executorOf("resumeQueue", db), name);
    },
    async listPausedQueues(db) {
      return run.queues.list(executorOf("listPausedQueues", db));
    },
  });
}

function executorOf(who: string, db: PgExecutor): Executor {
  if (typeof (db as Partial<PgExecutor> | undefined)?.execute !== "function")
    throw invalidOption(`${who}(): db`, "a Drizzle database or transaction", db);
  return drizzleExecutor(db);
}

const checkId = (option: string, id: unknown): void =>
  checkInteger(option, id, 1, Number.MAX_SAFE_INTEGER);

function checkIds(option: string, ids: readonly unknown[]): void {
  if (!Array.isArray(ids)) throw invalidOption(option, "an array of ids", ids);
  for (const [index, id] of ids.entries()) checkId(`${option}[${index}]`, id);
}

/** The answer of one job that was asked for: each has one. */
function one<A>([first]: readonly { readonly answer: A }[]): A {
  if (first === undefined) throw new TypeError("A statement gave no answer for its job.");
  return first.answer;
}
