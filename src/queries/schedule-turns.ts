import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { lowered } from "./limit-transaction.js";
import { integerList, textList } from "./list-literals.js";
import { template } from "./template.js";

/** How far a schedule has come, as its row tells; times are milliseconds since 1970 on the server's clock. */
export interface ScheduleProgress {
  readonly name: string;
  /** Up to this time all occurrences are enqueued or skipped. */
  readonly lastDueMs: number;
  readonly nextDueMs: number | null;
  readonly isPaused: boolean;
}

/** What a look at the schedules' rows found. */
export interface ScheduleLook {
  readonly nowMs: number;
  /** Lacks those that have no row. */
  readonly schedules: readonly ScheduleProgress[];
}

/** Whole milliseconds, as a cron pattern has them; somebody may have written another time by hand, or an infinity. */
const whole = (column: string): string =>
  `date_trunc('milliseconds', least(greatest(${column}, 'epoch'), '9999-01-01 00:00:00+00'))`;
const lastDueAt = whole("last_due_at");
const inMs = (time: string): string => `round(date_part('epoch', ${time}) * 1000)::bigint::text`;
const instantOf = (ms: string): string =>
  `'epoch'::timestamptz + ${ms}::bigint * interval '1 millisecond'`;

/** Columns of one word: a driver of the app may rename others. */
const lookText = `
  select name, ${inMs(lastDueAt)} as last,
    case when next_due_at is not null then ${inMs(whole("next_due_at"))} end as next,
    paused_at is not null as paused, ${inMs("statement_timestamp()")} as now
  from (select) as clock left join {schedules} on name = any($names::text::text[])`;

const beginText = `
  insert into {schedules} (name, last_due_at)
  select name, date_trunc('milliseconds', statement_timestamp())
  from unnest($names::text::text[]) as given(name), (select ${lowered("lock_timeout", "$wait_ms")}) as waits
  -- Two schedulers that begin at once take the names in one order.
  order by name collate "C"
  on conflict do nothing`;

const noteText = `
  update {schedules} as schedule
  set next_due_at = ${instantOf("given.next_ms")}
  from (
    select name from {schedules} where name = any($names::text::text[])
    -- Only told to those who list schedules: nobody waits for it.
    for no key update skip locked
  ) as free join unnest($names::text::text[], $next_ms::text::bigint[]) as given(name, next_ms) using (name)
  where schedule.name = free.name`;

const takeText = `
  select exists (select from {jobs} where id = schedule.last_job_id and finished_at is null) as unfinished,
    -- By the database's clock, whatever a scheduler believes.
    ${inMs("statement_timestamp()")} as now,
    -- An enqueue may wait for another transaction that has the same key: the other schedules wait behind it.
    ${lowered("lock_timeout", "$wait_ms")} as waits
  from {schedules} as schedule
  where name = $name::text and ${lastDueAt} = ${instantOf("$last_ms")} and paused_at is null
  for no key update skip locked`;

const moveText = `
  update {schedules} set last_due_at = ${instantOf("$due_ms")}, next_due_at = ${instantOf("$next_ms")},
    last_job_id = coalesce($job_id::bigint, last_job_id)
  where name = $name::text`;

/** How long a statement waits for somebody else's lock, in milliseconds. */
const WAIT_MS = 1_000;

/** The statements of a scheduler. */
export interface ScheduleTurns {
  /** Tells how far the named schedules have come; waits for nobody. */
  look(executor: Executor, names: readonly string[]): Promise<ScheduleLook>;
  /** Makes the rows of schedules that begin now; waits a second for whoever is making one of them. */
  begin(executor: Executor, names: readonly string[]): Promise<void>;
  /** Writes when schedules are due next, but for those whose row somebody holds. */
  noteNext(
    executor: Executor,
    schedules: readonly { readonly name: string; readonly nextDueMs: number | null }[],
  ): Promise<void>;
  /**
   * Takes a turn: locks the schedule's row, if it still stands at `lastDueMs`, until the end of the
   * transaction, in which nothing waits for a lock for longer than a second from then on.
   *
   * @returns The time, and whether the job of the turn before has not ended yet; undefined when somebody
   *   else holds the row or has moved it, or it is paused.
   */
  take(
    executor: Executor,
    name: string,
    lastDueMs: number,
  ): Promise<{ readonly nowMs: number; readonly isUnfinished: boolean } | undefined>;
  /** Moves a schedule on whose turn was taken in this transaction. */
  moveOn(
    executor: Executor,
    to: {
      readonly name: string;
      readonly dueMs: number;
      readonly nextDueMs: number | null;
      /** The job that was enqueued; null: the occurrence was skipped. */
      readonly jobId: number | null;
    },
  ): Promise<void>;
}

/**
 * Invariant: each occurrence is enqueued at most once, since whoever does has locked
 * the schedule's row at the occurrence before, and moves it on in the same transaction.
 */
export function scheduleTurns(tables: TableNames): ScheduleTurns {
  const look = template("look_at_schedules", lookText, tables);
  const begin = template("begin_schedules", beginText, tables);
  const note = template("note_next_occurrence", noteText, tables);
  const take = template("take_schedule", takeText, tables);
  const move = template("move_schedule_on", moveText, tables);
  return {
    async look(executor, names) {
      const rows = await executor.run(look.bind({ names: textList(names) }));
      return {
        nowMs: Number(rows[0]?.["now"]),
        schedules: rows
          .filter((row) => row["name"] !== null)
          .map((row) => ({
            name: String(row["name"]),
            lastDueMs: Number(row["last"]),
            nextDueMs: row["next"] === null ? null : Number(row["next"]),
            isPaused: row["paused"] === true,
          })),
      };
    },
    async begin(executor, names) {
      await executor.run(begin.bind({ names: textList(names), wait_ms: WAIT_MS }));
    },
    async noteNext(executor, schedules) {
      if (schedules.length === 0) return;
      const names = textList(schedules.map(({ name }) => name));
      const nextMs = integerList(schedules.map(({ nextDueMs }) => nextDueMs));
      await executor.run(note.bind({ names, next_ms: nextMs }));
    },
    async take(executor, name, lastDueMs) {
      const [row] = await executor.run(take.bind({ name, last_ms: lastDueMs, wait_ms: WAIT_MS }));
      if (row === undefined) return undefined;
      return { nowMs: Number(row["now"]), isUnfinished: row["unfinished"] === true };
    },
    async moveOn(executor, { name, dueMs, nextDueMs, jobId }) {
      await executor.run(move.bind({ name, due_ms: dueMs, next_ms: nextDueMs, job_id: jobId }));
    },
  };
}
