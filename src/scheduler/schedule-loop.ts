import { eventError, type QueueEvent } from "../instrumentation/instrumentation.js";
import { createAlarm } from "../worker/alarm.js";
import { monotonicMs } from "../worker/clock.js";
import { withDeadline } from "../worker/deadline.js";
import { isFatal } from "../worker/fatal-error.js";
import { createRetryPause, type RetryPause } from "../worker/retry-pause.js";
import { TRANSACTION_LIMIT_MS } from "./bounded-transaction.js";
import { beginSchedules, type Looked, lookAtSchedules } from "./look.js";
import type { CheckedSchedule } from "./schedule-options.js";
import { type TurnEnd, type TurnOptions, takeTurn } from "./take-turn.js";

/** Takes the turns of all schedules, one after the other, until it is stopped. */
export interface ScheduleLoop {
  /**
   * Looks for the first time and takes what is due; goes on in the background.
   *
   * @throws What that first look was refused with, where another one would be too; then nothing goes on.
   */
  start(): Promise<void>;
  /** Takes no further turn, and waits for the one under way. */
  stop(): Promise<void>;
}

export interface ScheduleLoopOptions extends Omit<TurnOptions, "isStopped"> {
  readonly schedules: readonly CheckedSchedule[];
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** The rows are looked at this often at least, in milliseconds: clocks drift, and somebody may have moved them. */
const LOOK_MS = 30_000;
/** After errors. */
const PAUSE = { firstMs: 1_000, maxMs: 60_000 };
/** While somebody else holds a schedule's row: mostly another scheduler that takes the turn. */
const HELD_PAUSE = { firstMs: 250, maxMs: 1_000 };
/** A row that is held for longer is told of: no scheduler takes so long. */
const HELD_LONG_MS = 2 * TRANSACTION_LIMIT_MS;
/** A row that is so far ahead of the clock stops its schedule; less may be the clock's. */
const AHEAD_MS = 60_000;

const NOT_BEGUN =
  "The rows of new schedules were made, and are not there: a trigger or a policy on the schedules' table keeps them away.";

/** One schedule, as this process knows it. */
interface ScheduleState {
  readonly schedule: CheckedSchedule;
  readonly errors: RetryPause;
  readonly held: RetryPause;
  /** Where and since when its row has been held. */
  heldAt: { readonly lastDueMs: number; readonly sinceMs: number } | undefined;
  /** What was told of this row is not told again while it stays as it is. */
  toldAtMs: number | undefined;
}

/** Creates the loop of one scheduler. */
export function createScheduleLoop(given: ScheduleLoopOptions): ScheduleLoop {
  let isStopped = false;
  let running: Promise<void> | undefined;
  const options = { ...given, isStopped: () => isStopped };
  // What ends by the stop is not told.
  const emit = (event: QueueEvent): void => {
    if (!isStopped || event.type === "schedule.enqueued" || event.type === "schedule.skipped")
      given.emit?.(event);
  };
  const states = given.schedules.map(newState);
  const looks = createRetryPause(PAUSE);
  const begins = createRetryPause(PAUSE);
  const alarm = createAlarm();
  let isFirst = true;
  /** Rows that were made, and that no look has seen yet. */
  const begun = new Set<string>();

  const statementErrored = (statement: string, error: unknown, retryInMs: number): number => {
    emit({ type: "statement.errored", statement, error: eventError(error), retryInMs });
    return monotonicMs() + retryInMs;
  };

  /** Makes missing rows; tells when to look for them, by the local clock. */
  const begin = async (names: readonly string[]): Promise<number> => {
    if (monotonicMs() < begins.untilMs()) return begins.untilMs();
    try {
      if (names.some((name) => begun.has(name))) throw new Error(NOT_BEGUN);
      await beginSchedules(options, names);
      for (const name of names) begun.add(name);
      begins.succeeded();
      return 0;
    } catch (error) {
      if (isFirst && isFatal(error)) throw error;
      begun.clear();
      return statementErrored("begin_schedules", error, begins.errored());
    }
  };

  /** Takes a turn; tells when it is to be tried again, if it has not been taken. */
  const take = async (state: ScheduleState, lastDueMs: number, dueMs: number) => {
    try {
      const end = await takeTurn(options, state.schedule, lastDueMs);
      state.errors.succeeded();
      if (end === undefined) return heldUntil(state, lastDueMs, dueMs, emit);
      emit(eventOf(state.schedule, end));
      return undefined;
    } catch (error) {
      const retryInMs = state.errors.errored();
      emit(erroredEvent(state.schedule, dueMs, error, retryInMs));
      return monotonicMs() + retryInMs;
    }
  };

  /** Takes the turn of a schedule if it has one; tells when it is to be looked at again, by the local clock. */
  const serve = async (state: ScheduleState, { progress, nowMs }: Looked): Promise<number> => {
    const { occurrences, name } = state.schedule;
    const row = progress.get(name);
    const pausedUntilMs = Math.max(state.errors.untilMs(), state.held.untilMs());
    if (row === undefined || monotonicMs() < pausedUntilMs) return pausedUntilMs;
    const { lastDueMs, isPaused } = row;
    const now = nowMs();
    const due = isPaused ? undefined : occurrences.latest(lastDueMs, now);
    if (due === undefined) tellOfRowAhead(state, lastDueMs - now, lastDueMs, emit);
    const againAtMs = due && (await take(state, lastDueMs, due.dueMs));
    if (againAtMs !== undefined) return againAtMs;
    forgetHeld(state);
    const next = occurrences.nextAfter(Math.max(lastDueMs, now));
    return next === undefined ? Number.POSITIVE_INFINITY : monotonicMs() + next - nowMs();
  };

  /** One look and the turns that are due; tells when the next look is, by the local clock. */
  const round = async (): Promise<number> => {
    const looked = await lookAtSchedules(options);
    looks.succeeded();
    let nextAtMs = monotonicMs() + LOOK_MS;
    const missing = states.filter(({ schedule }) => !looked.progress.has(schedule.name));
    for (const name of looked.progress.keys()) begun.delete(name);
    for (const state of states) {
      if (isStopped) return nextAtMs;
      if (looked.progress.has(state.schedule.name))
        nextAtMs = Math.min(nextAtMs, await serve(state, looked));
    }
    // Last: it may wait.
    if (missing.length > 0)
      nextAtMs = Math.min(nextAtMs, await begin(missing.map(({ schedule }) => schedule.name)));
    return nextAtMs;
  };

  const lookErrored = (error: unknown): number =>
    statementErrored("look_at_schedules", error, looks.errored());

  const goOn = async (firstAtMs: number): Promise<void> => {
    let nextAtMs = firstAtMs;
    while (!isStopped) {
      await alarm.sleep(nextAtMs - monotonicMs());
      if (!isStopped) nextAtMs = await round().catch(lookErrored);
    }
  };

  return {
    async start() {
      const first = round()
        .catch((error: unknown) => {
          if (isFatal(error)) throw error;
          return lookErrored(error);
        })
        .finally(() => {
          isFirst = false;
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

type Emit = (event: QueueEvent) => void;

function newState(schedule: CheckedSchedule): ScheduleState {
  return {
    schedule,
    errors: createRetryPause(PAUSE),
    held: createRetryPause(HELD_PAUSE),
    heldAt: undefined,
    toldAtMs: undefined,
  };
}

/** The row is held, or has just been moved; the next look tells. */
function heldUntil(state: ScheduleState, lastDueMs: number, dueMs: number, emit: Emit): number {
  if (state.heldAt?.lastDueMs !== lastDueMs) {
    forgetHeld(state);
    state.heldAt = { lastDueMs, sinceMs: monotonicMs() };
  }
  const retryInMs = state.held.errored();
  const isLong = monotonicMs() - state.heldAt.sinceMs > HELD_LONG_MS;
  if (isLong && state.toldAtMs !== lastDueMs) {
    state.toldAtMs = lastDueMs;
    const error = new Error("A transaction holds the schedule's row and keeps it from its turn.");
    emit(erroredEvent(state.schedule, dueMs, error, retryInMs));
  }
  return monotonicMs() + retryInMs;
}

function forgetHeld(state: ScheduleState): void {
  state.held.succeeded();
  state.heldAt = undefined;
}

/** The database's clock was ahead when an occurrence was enqueued, or somebody has written the time. */
function tellOfRowAhead(
  state: ScheduleState,
  aheadMs: number,
  lastDueMs: number,
  emit: Emit,
): void {
  if (aheadMs < AHEAD_MS || state.toldAtMs === lastDueMs) return;
  state.toldAtMs = lastDueMs;
  const error = new Error(
    "The schedule's row is ahead of the database's clock: nothing is due before that. Delete the row to begin anew.",
  );
  emit(erroredEvent(state.schedule, lastDueMs, error, aheadMs));
}

const erroredEvent = (
  { name, job }: CheckedSchedule,
  dueMs: number,
  error: unknown,
  retryInMs: number,
): QueueEvent => ({
  type: "schedule.errored",
  schedule: name,
  jobName: job,
  dueAt: new Date(dueMs),
  error: eventError(error),
  retryInMs,
});

function eventOf({ name, job }: CheckedSchedule, end: TurnEnd): QueueEvent {
  const { dueMs, missed } = end;
  const of = { schedule: name, jobName: job, dueAt: new Date(dueMs), missed };
  return end.kind === "enqueued"
    ? { type: "schedule.enqueued", ...of, jobId: end.jobId, created: end.created }
    : { type: "schedule.skipped", ...of, reason: end.reason };
}
