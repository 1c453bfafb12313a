import { eventError, type QueueEvent } from "../instrumentation/instrumentation.js";
import type { ScheduleProgress, ScheduleTurns } from "../queries/schedule-turns.js";
import { createAlarm } from "../worker/alarm.js";
import { jittered, monotonicMs } from "../worker/clock.js";
import { withDeadline } from "../worker/deadline.js";
import { isFatal } from "../worker/fatal-error.js";
import { createRetryPause, type RetryPause } from "../worker/retry-pause.js";
import type { CheckedSchedule } from "./schedule-options.js";
import {
  inBoundedTransaction,
  TRANSACTION_LIMIT_MS,
  type Turn,
  type TurnEnd,
  type TurnOptions,
  takeTurn,
} from "./take-turn.js";

/** Takes the turns of all schedules, one after the other, until it is stopped. */
export interface ScheduleLoop {
  /**
   * Looks for the first time and takes what is due; goes on in the background.
   *
   * @throws What that first look was refused with, where another one would be too; then nothing goes on.
   */
  start(): Promise<void>;
  /** Takes no further turn, and waits for the one under way, but not for a connection that the pool never gives. */
  stop(): Promise<void>;
}

export interface ScheduleLoopOptions extends TurnOptions {
  readonly schedules: readonly CheckedSchedule[];
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** The rows are looked at this often at least, in milliseconds: clocks drift, and somebody may have moved them. */
const LOOK_MS = 30_000;
/** How soon a turn is looked at again that another scheduler is taking, in milliseconds. */
const TAKEN_MS = 250;
const PAUSE = { firstMs: 1_000, maxMs: 60_000 };

/** One schedule, as this process knows it. */
interface Line {
  readonly schedule: CheckedSchedule;
  readonly pause: RetryPause;
}

/** Creates the loop of one scheduler. */
export function createScheduleLoop(options: ScheduleLoopOptions): ScheduleLoop {
  const { emit } = options;
  const turns: ScheduleTurns = {
    ...options.turns,
    // The pool may give a connection long after the stop.
    take: async (executor, turn) => (isStopped ? undefined : options.turns.take(executor, turn)),
  };
  const lines = options.schedules.map<Line>((schedule) => ({
    schedule,
    pause: createRetryPause(PAUSE),
  }));
  const names = options.schedules.map(({ name }) => name);
  const pause = createRetryPause(PAUSE);
  const alarm = createAlarm();
  let isStopped = false;
  let running: Promise<void> | undefined;

  /** Reads how far the schedules have come; what they say of the next occurrence is put right. */
  const look = (): Promise<Looked> =>
    inBoundedTransaction(options, async (executor) => {
      const { nowMs, schedules } = await turns.look(executor, names);
      const answeredMs = monotonicMs();
      const progress = new Map(schedules.map((row) => [row.name, row]));
      for (const { schedule } of lines) {
        const row = progress.get(schedule.name);
        if (row === undefined) continue;
        const nextDueMs = schedule.occurrences.nextAfter(row.lastDueMs) ?? null;
        if (nextDueMs !== row.nextDueMs) await turns.noteNext(executor, row.name, nextDueMs);
      }
      // Later than this by the answer's way: a turn is never taken too early.
      return { progress, nowMs: () => nowMs + monotonicMs() - answeredMs };
    });

  const take = async (line: Line, turn: Turn, missed: number): Promise<number> => {
    const { schedule, dueMs } = turn;
    try {
      const end = await takeTurn({ ...options, turns }, turn);
      line.pause.succeeded();
      if (end === undefined) return jittered(TAKEN_MS);
      emit?.(eventOf(schedule, dueMs, end, missed));
      return 0;
    } catch (error) {
      const retryInMs = line.pause.errored();
      emit?.({
        type: "schedule.errored",
        schedule: schedule.name,
        jobName: schedule.job,
        dueAt: new Date(dueMs),
        error: eventError(error),
        retryInMs,
      });
      return retryInMs;
    }
  };

  /** Takes a line's turn if it has one; tells in how many milliseconds it is to be looked at again. */
  const serve = async (line: Line, { progress, nowMs }: Looked): Promise<number> => {
    const { occurrences, name, maxLateMs } = line.schedule;
    const row = progress.get(name);
    if (row === undefined) return jittered(TAKEN_MS);
    const restMs = line.pause.untilMs() - monotonicMs();
    if (restMs > 0) return restMs;
    const { lastDueMs, isPaused } = row;
    const now = nowMs();
    const due = isPaused ? undefined : occurrences.latest(lastDueMs, now);
    if (due !== undefined) {
      const { dueMs, missed } = due;
      const turn = { schedule: line.schedule, lastDueMs, dueMs, isLate: now - dueMs > maxLateMs };
      const againInMs = await take(line, turn, missed);
      if (againInMs > 0) return againInMs;
    }
    const next = occurrences.nextAfter(Math.max(lastDueMs, due?.dueMs ?? now));
    return next === undefined ? Number.POSITIVE_INFINITY : next - nowMs();
  };

  /** One look and the turns that are due; tells when the next look is, in milliseconds. */
  const round = async (): Promise<number> => {
    const looked = await look();
    pause.succeeded();
    let nextInMs = LOOK_MS;
    for (const line of lines) {
      if (isStopped) break;
      nextInMs = Math.min(nextInMs, await serve(line, looked));
    }
    return Math.max(0, nextInMs);
  };

  /** The same, whatever happens. */
  const safeRound = (): Promise<number> => round().catch(errored);

  const errored = (error: unknown): number => {
    const retryInMs = pause.errored();
    emit?.({
      type: "statement.errored",
      statement: "look_at_schedules",
      error: eventError(error),
      retryInMs,
    });
    return retryInMs;
  };

  const goOn = async (firstInMs: number): Promise<void> => {
    let nextInMs = firstInMs;
    while (!isStopped) {
      await alarm.sleep(nextInMs);
      if (!isStopped) nextInMs = await safeRound();
    }
  };

  return {
    async start() {
      const first = round().catch((error: unknown) => {
        if (isFatal(error)) throw error;
        return errored(error);
      });
      running = first.then(goOn);
      // Who started it hears of it here.
      running.catch(() => undefined);
      await first;
    },
    async stop() {
      isStopped = true;
      alarm.ring();
      if (running === undefined) return;
      await withDeadline(TRANSACTION_LIMIT_MS, "stop", running).catch(() => undefined);
    },
  };
}

interface Looked {
  readonly progress: ReadonlyMap<string, ScheduleProgress>;
  /** The server's clock, or a little behind it. */
  readonly nowMs: () => number;
}

function eventOf(
  { name, job }: CheckedSchedule,
  dueMs: number,
  end: TurnEnd,
  missed: number,
): QueueEvent {
  const of = { schedule: name, jobName: job, dueAt: new Date(dueMs), missed };
  return end.kind === "enqueued"
    ? { type: "schedule.enqueued", ...of, jobId: end.jobId, created: end.created }
    : { type: "schedule.skipped", ...of, reason: end.reason };
}
