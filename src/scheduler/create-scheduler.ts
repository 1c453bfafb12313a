import type { Enqueued } from "../enqueue/enqueue.js";
import { QueueError } from "../errors.js";
import { emitter, eventError, type Instrumentation } from "../instrumentation/instrumentation.js";
import { explainingMissingTables } from "../queries/missing-tables.js";
import { scheduleTurns } from "../queries/schedule-turns.js";
import type { PgDatabase } from "../queries/transaction.js";
import type { JobMap } from "../registry/job-definition.js";
import {
  checkFunction,
  invalidOption,
  isObject,
  refuseUnknownOptions,
} from "../registry/option-checks.js";
import type { TableNames } from "../schema/table-names.js";
import { watchAppPool } from "../worker/drivers/app-pool.js";
import { driverOf } from "../worker/drivers/driver-of.js";
import { transactOf } from "../worker/drivers/transact.js";
import { createScheduleLoop, type ScheduleLoop } from "./schedule-loop.js";
import { checkSchedules, type OccurrenceOptions, type Schedules } from "./schedule-options.js";

/** What a scheduler needs of a queue; `createQueue` makes it. */
export interface SchedulerQueue<M extends JobMap> {
  readonly jobs: M;
  readonly tables: TableNames;
  readonly maxPayloadBytes: number;
  readonly instrumentation: Instrumentation | undefined;
  readonly enqueue: (
    tx: never,
    name: never,
    payload: never,
    options?: OccurrenceOptions,
  ) => Promise<Enqueued>;
}

/** What {@link createScheduler} takes. */
export interface SchedulerOptions<M extends JobMap> {
  readonly queue: SchedulerQueue<M>;
  /** The app's Drizzle database; its pool lends a connection for each turn. */
  readonly db: PgDatabase;
  /** What is enqueued when; one or more. */
  readonly schedules: Schedules<NoInfer<M>>;
  /** Receives the events of this scheduler. @default that of the queue */
  readonly instrumentation?: Instrumentation | undefined;
}

/** Enqueues the jobs of schedules at their times, from `start` to `stop`. */
export interface Scheduler {
  /**
   * Begins to enqueue. A schedule that is seen for the first time begins now; what another one
   * has missed since a scheduler last ran is made up for by one job, that of its latest occurrence.
   *
   * Resolves once what is due by then is enqueued. A database that cannot be reached yet is waited for in
   * the background: this resolves once the first try has failed, after ten seconds at most.
   *
   * @throws {QueueError} `SCHEDULER_STATE` when it has been started already, `TABLES_MISSING` when the
   *   queue's tables are not there. The database's own error when it refuses the role, or is not there.
   */
  start(): Promise<void>;
  /**
   * Enqueues no more; waits for a transaction that is under way, ten seconds at most.
   * Calling it again waits for the same stop. It needs no `this`, and never closes the app's pool.
   */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const OPTIONS = ["queue", "db", "schedules", "instrumentation"] as const;

/**
 * Creates a scheduler; it does nothing until it is started.
 *
 * It may run in any number of processes, with the same schedules or others: each occurrence is
 * enqueued by one of them, once, in the transaction that moves its schedule on.
 *
 * @throws {QueueError} `INVALID_OPTION`, `UNKNOWN_JOB`, `INVALID_PAYLOAD` or `UNSUPPORTED_DRIVER`, naming the
 *   schedule: each is tried with its next occurrence. What a payload function throws passes through.
 * @example
 * const scheduler = createScheduler({
 *   queue,
 *   db,
 *   schedules: {
 *     nightlyReport: {
 *       job: "report",
 *       cron: "30 2 * * *",
 *       timeZone: "Europe/Berlin",
 *       payload: () => ({ reportId: crypto.randomUUID() }),
 *     },
 *   },
 * });
 * await scheduler.start();
 */
export function createScheduler<const M extends JobMap>(options: SchedulerOptions<M>): Scheduler {
  refuseUnknownOptions("createScheduler()", options, OPTIONS);
  const { queue, db } = options;
  checkRequired(options);
  const instrumentation = options.instrumentation ?? queue.instrumentation;
  const schedules = checkSchedules(queue, options.schedules);
  const { tables } = queue;
  const emit = emitter(instrumentation);
  const transact = transactOf(driverOf("createScheduler()", db));
  const turns = scheduleTurns(tables);
  let current: Run | undefined;

  const begin = (): Run => {
    const unwatch = watchAppPool((db as { readonly $client?: unknown }).$client, (error) =>
      emit?.({ type: "connection.lost", role: "app", error: eventError(error) }),
    );
    const loop = createScheduleLoop({
      db,
      transact,
      explained: (executor) => explainingMissingTables(executor, tables),
      turns,
      schedules,
      emit,
      enqueue: (tx, { job, payloadAt, options: given }, dueMs) =>
        queue.enqueue(tx as never, job as never, payloadAt(dueMs) as never, given),
    });
    return { loop, unwatch, hasStarted: false };
  };

  /** Ends a run, and no other that was begun since. */
  const end = async (run: Run): Promise<void> => {
    await run.loop.stop();
    if (current !== run) return;
    current = undefined;
    run.unwatch();
    if (run.hasStarted) emit?.({ type: "scheduler.stopped" });
  };
  const stop = async (): Promise<void> => {
    if (current !== undefined) await end(current);
  };

  return Object.freeze({
    async start() {
      if (current !== undefined)
        throw new QueueError("SCHEDULER_STATE", "This scheduler has been started. Stop it first.");
      const run = begin();
      current = run;
      try {
        await run.loop.start();
      } catch (error) {
        await end(run);
        throw error;
      }
      if (current !== run) return;
      run.hasStarted = true;
      emit?.({ type: "scheduler.started", schedules: schedules.map(({ name }) => name) });
    },
    stop,
    [Symbol.asyncDispose]: stop,
  });
}

/** From one start to its stop. */
interface Run {
  readonly loop: ScheduleLoop;
  readonly unwatch: () => void;
  hasStarted: boolean;
}

function checkRequired({
  queue,
  db,
  instrumentation,
}: Pick<SchedulerOptions<JobMap>, "queue" | "db" | "instrumentation">): void {
  if (!isObject(queue) || !isObject(queue.jobs) || typeof queue.enqueue !== "function")
    throw invalidOption("createScheduler(): queue", "made by createQueue()", queue);
  if (!isObject(db) || typeof (db as { transaction?: unknown }).transaction !== "function")
    throw invalidOption("createScheduler(): db", "a Drizzle database, such as drizzle(pool)", db);
  if (instrumentation !== undefined)
    checkFunction("createScheduler(): instrumentation.event", instrumentation?.event);
}
