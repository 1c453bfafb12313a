import { createEnqueue, type Enqueue } from "./enqueue/enqueue.js";
import { emitter, type Instrumentation } from "./instrumentation/instrumentation.js";
import { insertJobTemplates } from "./queries/insert-job.js";
import { insertJobsTemplates } from "./queries/insert-jobs.js";
import { withdrawJobsTemplate } from "./queries/withdraw-jobs.js";
import { defineJobs } from "./registry/define-jobs.js";
import type { JobMap } from "./registry/job-definition.js";
import { checkFunction, checkInteger, refuseUnknownOptions } from "./registry/option-checks.js";
import { type TableNames, type TablePlace, tableNames } from "./schema/table-names.js";

/** What {@link createQueue} takes. */
export interface QueueOptions<M extends JobMap> {
  /** Every job of the app, from `defineJobs`. */
  readonly jobs: M;
  /**
   * Where the tables are, as given to `createQueueTables`: a schema of 1 to 63 bytes, a prefix of up to
   * 33. @default { schema: "public", prefix: "queue_" }
   */
  readonly tables?: TablePlace | undefined;
  /**
   * How large a payload may be as JSON, and a result, in bytes: 1 to 33,554,432. @default 65_536
   */
  readonly maxPayloadBytes?: number | undefined;
  /** Receives the events of enqueue, and of workers that bring none of their own. @default none */
  readonly instrumentation?: Instrumentation | undefined;
}

/** What an app holds: its jobs, bound to the tables they are stored in. */
export interface Queue<M extends JobMap = JobMap> extends Enqueue<M> {
  readonly jobs: M;
  readonly tables: TableNames;
  readonly maxPayloadBytes: number;
  readonly instrumentation: Instrumentation | undefined;
}

/** A batch of a few of them still fits in one statement. */
const MAX_PAYLOAD_BYTES = 32 * 1024 * 1024;

/**
 * Binds a registry to the ways of enqueueing. Opens no connection.
 *
 * @throws {QueueError} `INVALID_OPTION` when an option is unknown or out of its range.
 * @example
 * export const queue = createQueue({ jobs });
 */
export function createQueue<const M extends JobMap>(options: QueueOptions<M>): Queue<M> {
  refuseUnknownOptions("createQueue()", options, [
    "jobs",
    "tables",
    "maxPayloadBytes",
    "instrumentation",
  ]);
  const { maxPayloadBytes = 65_536, instrumentation } = options;
  checkInteger("createQueue(): maxPayloadBytes", maxPayloadBytes, 1, MAX_PAYLOAD_BYTES);
  if (instrumentation !== undefined)
    checkFunction("createQueue(): instrumentation.event", instrumentation?.event);
  const jobs = defineJobs(options.jobs);
  const tables = tableNames(options.tables);
  const statements = {
    insertOne: insertJobTemplates(tables),
    insertMany: insertJobsTemplates(tables),
    withdraw: withdrawJobsTemplate(tables),
  };
  const emit = emitter(instrumentation);
  const functions = createEnqueue<M>({ jobs, maxPayloadBytes, statements, emit });
  return Object.freeze({ jobs, tables, maxPayloadBytes, instrumentation, ...functions });
}
