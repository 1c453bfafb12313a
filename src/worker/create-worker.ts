import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { QueueError } from "../errors.js";
import { emitter, type Instrumentation } from "../instrumentation/instrumentation.js";
import type { PgDatabase, TxOf } from "../queries/transaction.js";
import type { JobMap } from "../registry/job-definition.js";
import { invalidOption, refuseUnknownOptions } from "../registry/option-checks.js";
import type { TableNames } from "../schema/table-names.js";
import { driverOf } from "./drivers/driver-of.js";
import { checkHandlers, type Handlers } from "./handlers.js";
import { createRun, type Run } from "./run.js";
import type { StopReport } from "./stop-worker.js";
import {
  checkGrace,
  checkRequired,
  checkSettings,
  servedNames,
  type WorkerSettings,
} from "./worker-options.js";

export type { StopReport } from "./stop-worker.js";

/** What a worker needs of a queue; `createQueue` makes it. */
export interface WorkerQueue<M extends JobMap> {
  readonly jobs: M;
  readonly tables: TableNames;
  readonly maxPayloadBytes: number;
  readonly instrumentation: Instrumentation | undefined;
}

/** What {@link createWorker} takes. */
export interface WorkerOptions<M extends JobMap, DB extends PgDatabase, N extends keyof M & string>
  extends WorkerSettings {
  readonly queue: WorkerQueue<M>;
  /** The app's Drizzle database: `commit` runs on its pool, the worker's own connections use its options. */
  readonly db: DB;
  /** Serve these jobs only: one name or more. @default every job of the registry */
  readonly only?: readonly N[] | undefined;
  /** One handler for each job that is served; those of other jobs of the registry are left aside. */
  // Inferred from here, `N` would be whatever handlers there are, and none could be missing.
  readonly handlers: Handlers<M, TxOf<DB>, NoInfer<N>>;
}

const OPTIONS = [
  "queue",
  "db",
  "handlers",
  "only",
  "concurrency",
  "queues",
  "pollIntervalMs",
  "retention",
  "throughPooler",
  "instrumentation",
] as const;

/** What belongs to a job, not to whoever runs it. */
const MISPLACED = new Map(
  ["leaseMs", "timeoutMs", "maxAttempts", "backoff", "retryIf", "priority"].map((option) => [
    option,
    `It is an option of defineJob().`,
  ]),
);

/** Claims and runs jobs, from `start` to `stop`. */
export interface Worker {
  /** Names this worker in `locked_by` and in events, as `host:pid:random`; another one after each start. */
  readonly id: string;
  /**
   * Begins to claim jobs.
   *
   * A database that cannot be reached yet is waited for in the background: this
   * resolves once the first try has failed.
   *
   * @throws {QueueError} `WORKER_STATE` when it has been started already,
   *   `TABLES_MISSING` when the queue's tables are not there. The database's own error
   *   when it refuses the role, or is not there.
   */
  start(): Promise<void>;
  /**
   * Stops claiming, gives back what has not started, waits up to `gracePeriodMs`
   * for running handlers, then aborts them.
   *
   * It resolves whatever the state of the database, two seconds after the
   * grace period at the latest. Calling it again waits for the same stop. It never closes the app's pool.
   * It needs no `this`, and what is no object, such as the name of a signal, counts as no options:
   * `process.on("SIGTERM", worker.stop)`.
   *
   * @throws {QueueError} `INVALID_OPTION` as a rejection, and nothing is stopped.
   */
  stop(options?: {
    /** In milliseconds: 0 to 2,147,483,647. @default 30_000 */
    readonly gracePeriodMs?: number | undefined;
  }): Promise<StopReport>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Creates a worker; it does nothing until it is started.
 *
 * It opens three connections of its own, whatever its concurrency.
 *
 * @throws {QueueError} `INVALID_OPTION`, `UNKNOWN_JOB` or `UNSUPPORTED_DRIVER`, naming the option.
 * @example
 * const worker = createWorker({ queue, db, concurrency: 10, handlers });
 * process.on("SIGTERM", () => worker.stop({ gracePeriodMs: 30_000 }));
 * await worker.start();
 */
export function createWorker<
  M extends JobMap,
  DB extends PgDatabase,
  const N extends keyof M & string = keyof M & string,
>(options: WorkerOptions<M, DB, N>): Worker {
  refuseUnknownOptions("createWorker()", options, OPTIONS, MISPLACED);
  checkRequired(options);
  const { queue, db } = options;
  const names = servedNames(queue.jobs, options.only);
  const settings = checkSettings(options, queue.jobs, names);
  const handlers = checkHandlers(queue.jobs, names, options.handlers);
  const driver = driverOf("createWorker()", db);
  if (settings.throughPooler && !driver.hasOwnConnections)
    throw invalidOption(
      "createWorker(): throughPooler",
      "false on PGlite, which has no pooler",
      true,
    );
  const emit = emitter(options.instrumentation ?? queue.instrumentation);
  let id = newWorkerId();
  let hasRun = false;
  let run: Run | undefined;
  let stopping: Promise<StopReport> | undefined;

  const stop: Worker["stop"] = async (given) => {
    const gracePeriodMs = checkGrace(given);
    if (run === undefined) return { released: 0, abandoned: [] };
    stopping ??= run.stop(gracePeriodMs).finally(() => {
      run = undefined;
      stopping = undefined;
    });
    return stopping;
  };

  return Object.freeze({
    get id() {
      return id;
    },
    async start() {
      if (run !== undefined)
        throw new QueueError("WORKER_STATE", "This worker has been started. Stop it first.");
      if (hasRun) id = newWorkerId();
      hasRun = true;
      run = createRun({
        workerId: id,
        tables: queue.tables,
        jobs: queue.jobs,
        names,
        settings,
        maxResultBytes: queue.maxPayloadBytes,
        handlers,
        db,
        driver,
        emit,
      });
      try {
        await run.start();
      } catch (error) {
        await stop({ gracePeriodMs: 0 });
        throw error;
      }
    },
    stop,
    async [Symbol.asyncDispose]() {
      await stop();
    },
  });
}

/** A new one for each start: what an earlier run abandoned must not be taken for this one's. */
function newWorkerId(): string {
  return `${hostname().slice(0, 100)}:${process.pid}:${randomBytes(6).toString("hex")}`;
}
