import type { ScheduleProgress, ScheduleTurns } from "../queries/schedule-turns.js";
import { sqlState } from "../queries/sql-errors.js";
import { monotonicMs } from "../worker/clock.js";
import { type BoundedTransactionOptions, inBoundedTransaction } from "./bounded-transaction.js";
import type { CheckedSchedule } from "./schedule-options.js";

/** What a look at the rows has found. */
export interface Looked {
  /** By name; lacks a schedule that has no row yet. */
  readonly progress: ReadonlyMap<string, ScheduleProgress>;
  /** The server's clock, or a little behind it. */
  readonly nowMs: () => number;
}

export interface LookOptions extends BoundedTransactionOptions {
  readonly turns: ScheduleTurns;
  readonly schedules: readonly CheckedSchedule[];
}

/** Reads how far the schedules have come; what their rows say of the next occurrence is put right. */
export function lookAtSchedules(options: LookOptions): Promise<Looked> {
  const { turns, schedules } = options;
  return inBoundedTransaction(options, async (executor) => {
    const names = schedules.map(({ name }) => name);
    const { nowMs, schedules: rows } = await turns.look(executor, names);
    const answeredMs = monotonicMs();
    const progress = new Map(rows.map((row) => [row.name, row]));
    const outdated = schedules.flatMap(({ name, occurrences }) => {
      const row = progress.get(name);
      if (row === undefined) return [];
      const nextDueMs = occurrences.nextAfter(row.lastDueMs) ?? null;
      return nextDueMs === row.nextDueMs ? [] : [{ name, nextDueMs }];
    });
    await turns.noteNext(executor, outdated);
    // The answer took time, so the server's clock is a little ahead of this: a turn is never taken too early.
    return { progress, nowMs: () => nowMs + monotonicMs() - answeredMs };
  });
}

/**
 * Makes the rows of schedules that have none: they begin now.
 *
 * By itself, since it may have to wait for somebody who is making one of them: those that have a row do not,
 * and the others begin one by one then.
 *
 * @throws The server's error where one of them is still waited for.
 */
export async function beginSchedules(
  options: LookOptions,
  names: readonly string[],
): Promise<void> {
  const begin = (of: readonly string[]): Promise<void> =>
    inBoundedTransaction(options, (executor) => options.turns.begin(executor, of));
  try {
    await begin(names);
  } catch (error) {
    if (sqlState(error) !== LOCK_NOT_AVAILABLE || names.length === 1) throw error;
    for (const name of names) await begin([name]).catch(ignoreLock);
    throw error;
  }
}

const LOCK_NOT_AVAILABLE = "55P03";

function ignoreLock(error: unknown): void {
  if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error;
}
