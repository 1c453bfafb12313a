import { eventError, type QueueEvent } from "../instrumentation/instrumentation.js";
import type { ScheduleProgress, ScheduleTurns } from "../queries/schedule-turns.js";
import { createAlarm } from "../worker/alarm.js";
import { jittered, monotonicMs } from "../worker/clock.js";
import { withDeadline } from "../worker/deadline.js";
import { isFatal } from "../worker/fatal-error.js";
import { createRetryPause, type RetryPause } from "../worker/retry-pause.js";
import { inBoundedTransaction, TRANSACTION_LIMIT_MS } from "./bounded-transaction.js";
import type { CheckedSchedule } from "./schedule-options.js";
import { type Turn, type TurnEnd, type TurnOptions, takeTurn } from "./take-turn.js";

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

/** One schedule, and when it may be tried again after an error. */
interface ScheduleState {
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
  const states = options.schedules.map<ScheduleState>((schedule) => ({
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
      for (const { schedule } of states) {
        const row = progress.get(schedule.name);
        if (row === undefined) continue;
        const nextDueMs = schedule.occurrences.nextAfter(row.lastDueMs) ?? null;
        if (nextDueMs !== row.nextDueMs) await turns.noteNext(executor, row.name, nextDueMs);
      }
      // The answer took time, so the server's clock is a little ahead of this: a turn is never taken too early.
      return { progress, nowMs: () => nowMs + monotonicMs() - answeredMs };
    });

  /** Takes a turn; tells in how many milliseconds it is to be tried again, if it has not been taken. */
  const take = async (
    state: ScheduleState,
    turn: Turn,
    missed: number,
  ): Promise<number | undefined> => {
    const { schedule, dueMs } = turn;
    try {
      const end = await takeTurn({ ...options, turns }, turn);
      state.pause.succeeded();
      if (end === undefined) return jittered(TAKEN_MS);
      emit?.(eventOf(schedule, dueMs, end, missed));
      return undefined;
    } catch (error) {
      const retryInMs = state.pause.errored();
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

  /** Takes the turn of a schedule if it has one; tells in how many milliseconds it is to be looked at again. */
  const serve = async (state: ScheduleState, { progress, nowMs }: Looked): Promise<number> => {
    const { occurrences, name, maxLateMs } = state.schedule;
    const row = progress.get(name);
    if (row === undefined) return jittered(TAKEN_MS);
    const restMs = state.pause.untilMs() - monotonicMs();
    if (restMs > 0) return restMs;
    const { lastDueMs, isPaused } = row;
    const now = nowMs();
    const due = isPaused ? undefined : occurrences.latest(lastDueMs, now);
    if (due !== undefined) {
      const { dueMs, missed } = due;
      const turn = { schedule: state.schedule, lastDueMs, dueMs, isLate: now - dueMs > maxLateMs };
      const againInMs = await take(state, turn, missed);
      if (againInMs !== undefined) return againInMs;
    }
    const next = occurrences.nextAfter(Math.max(lastDueMs, due?.dueMs ?? now));
    return next === undefined ? Number.POSITIVE_INFINITY : next - nowMs();
  };

  /** One look and the turns that are due; tells when the next look is, in milliseconds. */
  const round = async (): Promise<number> => {
    const looked = await look();
    pause.succeeded();
    let nextInMs = LOOK_MS;
    for (const state of states) {
      if (isStopped) break;
      nextInMs = Math.min(nextInMs, await serve(state, looked));
    }
    return Math.max(0, nextInMs);
  };

  /** The same; an error is told, and another round follows. */
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
