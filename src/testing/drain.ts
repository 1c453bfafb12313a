import type { QueueError } from "../errors.js";
import type { Executor } from "../queries/executor.js";
import {
  findJobsLeft,
  type JobLeft,
  type JobsLeft,
  type ServedJobs,
} from "../queries/find-jobs-left.js";
import { makeDue } from "../queries/make-due.js";
import type { JobMap } from "../registry/job-definition.js";
import type { Alarm } from "../worker/alarm.js";
import { after } from "../worker/clock.js";
import type { Worker, WorkerQueue } from "../worker/create-worker.js";
import type { DrainLog } from "./drain-log.js";
import { timedOut } from "./timed-out.js";

/** What it takes to watch a worker empty its queues. */
export interface DrainParts {
  readonly worker: Worker;
  /** The app's database, beside the worker's own connections. */
  readonly executor: Executor;
  readonly tables: WorkerQueue<JobMap>["tables"];
  readonly served: ServedJobs;
  readonly log: DrainLog;
  /** Rings when the worker holds no job any more. */
  readonly alarm: Alarm;
  readonly runsScheduled: boolean;
}

/** One call of drainJobs, between the start and the stop of its worker. */
export interface Drain {
  /** Makes due what is to be run now, starts the worker, and resolves once nothing is left that is due. */
  run(): Promise<void>;
  /** Nobody waits for it any more. */
  end(): void;
  /** Says what is left after so many milliseconds. */
  timedOut(afterMs: number): Promise<QueueError>;
}

/** How soon a job that is due should have been claimed, in milliseconds. */
const LOOK_AGAIN_MS = 10;
/** So many of the jobs that are left are named. */
const NAMED = 5;
/** How long their names are waited for, in milliseconds: whoever hangs may have the last connection of the pool. */
const NAMES_MS = 200;

/** Creates a drain that has not begun. */
export function createDrain(parts: DrainParts): Drain {
  const { worker, executor, tables, served, log, alarm, runsScheduled } = parts;
  const find = findJobsLeft(tables);
  const scheduledNow = makeDue(tables);
  let isOver = false;

  const jobsLeft = () => find(executor, { ...served, workerId: worker.id, limit: NAMED });

  /** Waits until nothing is due. */
  const settle = async (): Promise<void> => {
    while (!isOver) {
      if (!log.isQuiet()) {
        // What a handler still does after its commit may be to enqueue more.
        await alarm.sleep(Number.POSITIVE_INFINITY);
        continue;
      }
      const claims = log.claims();
      const left = await jobsLeft();
      const hasClaimed = log.claims() !== claims;
      // A job that came, and maybe went, while the question was under way may leave others behind.
      if (left.count === 0 && !hasClaimed) return;
      if (!hasClaimed) await alarm.sleep(LOOK_AGAIN_MS);
    }
  };

  return {
    async run() {
      // While nothing runs: what is snoozed later must not be made due once more.
      if (runsScheduled) await scheduledNow(executor, { ...served, retries: null });
      // The pool may have kept it waiting until nobody waited for it.
      if (isOver) return;
      await worker.start();
      await settle();
      while (runsScheduled && !isOver) {
        const retries = log.takeRetrying();
        if (retries.length === 0) return;
        await scheduledNow(executor, { ...served, retries });
        await settle();
      }
    },
    end() {
      isOver = true;
      alarm.ring();
    },
    async timedOut(afterMs) {
      const left = await Promise.race([jobsLeft().catch(() => undefined), pause(NAMES_MS)]);
      const isAnswered = left !== undefined && left.count > 0;
      const { first, count } = isAnswered ? left : heldOf(log);
      return timedOut(
        `drainJobs(): not drained after ${afterMs} ms: ${listed(first, count)}. End what hangs, let go of rows that a transaction has locked, or raise timeoutMs.`,
        log.lastFault(),
      );
    },
  };
}

/** By the worker's word, where the database says nothing. */
function heldOf(log: DrainLog): JobsLeft {
  const first = log.held();
  return { first, count: first.length };
}

const pause = (ms: number): Promise<undefined> =>
  new Promise((resolve) => {
    after(ms, () => resolve(undefined));
  });

function listed(first: readonly JobLeft[], count: number): string {
  if (count === 0)
    return "the worker or the database does not answer, or the pool has no free connection";
  const named = first.map(({ id, name, state }) => `"${name}" ${id} (${state})`).join(", ");
  const more = count > first.length ? ` and ${count - first.length} more` : "";
  return `left ${count === 1 ? "is" : "are"} ${named}${more}`;
}
