import type { QueueEvent } from "../instrumentation/instrumentation.js";
import { createPruning } from "../maintenance/pruning.js";
import type { Executor } from "../queries/executor.js";
import { type OldRows, oldJobs, oldProcessedKeys } from "../queries/prune-rows.js";
import { isDataError, sqlState } from "../queries/sql-errors.js";
import { JOB_OUTCOMES } from "../schema/job-states.js";
import type { TableNames } from "../schema/table-names.js";
import { createAlarm } from "./alarm.js";
import { jittered, monotonicMs } from "./clock.js";
import type { CheckedRetention } from "./retention.js";

/** What a worker does beside its jobs, once a minute: it deletes what has outlived its retention. */
export interface Upkeep {
  start(): void;
  /** Whether a statement has been under way for longer than one takes. */
  isSlow(): boolean;
  /** Begins nothing more. */
  stop(): void;
}

export interface UpkeepOptions {
  readonly tables: TableNames;
  readonly retention: CheckedRetention;
  readonly connection: Executor;
  readonly onError: (error: unknown, retryInMs: number) => void;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

const INTERVAL_MS = 60_000;
/** A statement that takes longer is slow, in milliseconds: 1 to 20 are usual. */
const SLOW_MS = 25;
/** The first look follows the start by a tenth of a second to a whole one, so that a fleet does not look at once. */
const FIRST_MS = 100;

/** Creates the upkeep of a worker. */
export function createUpkeep(options: UpkeepOptions): Upkeep {
  const { tables, retention, connection, emit } = options;
  const alarm = createAlarm();
  let isStopped = false;
  let sentAtMs: number | undefined;

  const timed = async <T>(answer: Promise<T>): Promise<T> => {
    sentAtMs = monotonicMs();
    try {
      return await answer;
    } finally {
      sentAtMs = undefined;
    }
  };

  const pruning = (rows: OldRows, event: (count: number) => QueueEvent) =>
    createPruning({
      find: (after, limit) => timed(rows.find(connection, after, limit)),
      remove: (ids) => timed(rows.remove(connection, ids)),
      isRefusal,
      onPruned: (count) => emit?.(event(count)),
      isStopped: () => isStopped,
      sleep: alarm.sleep,
      nowMs: monotonicMs,
    });

  const prunings = [
    ...JOB_OUTCOMES.flatMap((outcome) => {
      const olderThanMs = retention.jobsMs[outcome];
      if (olderThanMs === null) return [];
      const rows = oldJobs(tables, outcome, olderThanMs);
      return [pruning(rows, (count) => ({ type: "jobs.pruned", outcome, count }))];
    }),
    // Whatever the retention is: the app may have set times of its own.
    pruning(oldProcessedKeys(tables), (count) => ({ type: "processed_keys.pruned", count })),
  ];

  const run = async (): Promise<void> => {
    await alarm.sleep(jittered(FIRST_MS, 9));
    for (let pauseMs = 0; ; pauseMs = INTERVAL_MS / prunings.length) {
      for (const each of prunings) {
        await each.pass().catch((error: unknown) => options.onError(error, INTERVAL_MS));
        // By turns, not all at once: a worker that has nothing to do is to be seen doing nothing.
        if (!isStopped) await alarm.sleep(jittered(pauseMs));
        if (isStopped) return;
      }
    }
  };

  return {
    start() {
      void run();
    },
    isSlow: () => sentAtMs !== undefined && monotonicMs() - sentAtMs > SLOW_MS,
    stop() {
      isStopped = true;
      alarm.ring();
    },
  };
}

/** A row of the app that refers to the job, a trigger of the app, or a lock or a delete that took too long. */
const isRefusal = (error: unknown): boolean =>
  isDataError(error) || /^(40|55P03|57014)/.test(sqlState(error) ?? "");
