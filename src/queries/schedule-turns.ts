import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { textList } from "./list-literals.js";
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
  /** Lacks those that somebody else is just making the row of. */
  readonly schedules: readonly ScheduleProgress[];
}

/** One occurrence that is to be enqueued or skipped, and the one before that its row must stand at. */
export interface ScheduleTurn {
  readonly name: string;
  readonly lastDueMs: number;
  readonly dueMs: number;
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
  with begun as (
    insert into {schedules} (name, last_due_at)
    select name, date_trunc('milliseconds', statement_timestamp())
    from unnest($names::text::text[]) as given(name)
    where not exists (select from {schedules} as known where known.name = given.name)
    -- Two schedulers that begin at once take the names in one order.
    order by name collate "C"
    on conflict do nothing
    returning name, last_due_at, next_due_at, paused_at
  ), schedule as (
    select name, last_due_at, next_due_at, paused_at from {schedules} where name = any($names::text::text[])
    union all select name, last_due_at, next_due_at, paused_at from begun
  )
  select name, ${inMs(lastDueAt)} as last,
    case when next_due_at is not null then ${inMs(whole("next_due_at"))} end as next,
    paused_at is not null as paused, ${inMs("statement_timestamp()")} as now
  from (select) as clock left join schedule on true`;

const noteText = `
  update {schedules} set next_due_at = ${instantOf("$next_ms")}
  where name = (
    select name from {schedules} where name = $name::text
    -- Only told to those who list schedules: nobody waits for it.
    for no key update skip locked
  )`;

const takeText = `
  select exists (select from {jobs} where id = schedule.last_job_id and finished_at is null) as open,
    -- An enqueue may wait for another transaction that has the same key: the other schedules wait behind it.
    set_config('lock_timeout', '1s', true) as waits
  from {schedules} as schedule
  where name = $name::text and ${lastDueAt} = ${instantOf("$last_ms")} and paused_at is null
    -- By the database's clock, whatever a scheduler believes.
    and ${instantOf("$due_ms")} <= statement_timestamp()
  for no key update skip locked`;

const moveText = `
  update {schedules} set last_due_at = ${instantOf("$due_ms")}, next_due_at = ${instantOf("$next_ms")},
    last_job_id = coalesce($job_id::bigint, last_job_id)
  where name = $name::text`;

/** The statements of a scheduler. */
export interface ScheduleTurns {
  /** Tells how far the named schedules have come. One that has no row begins now. */
  look(executor: Executor, names: readonly string[]): Promise<ScheduleLook>;
  /** Writes when a schedule is due next. */
  noteNext(executor: Executor, name: string, nextDueMs: number | null): Promise<void>;
  /**
   * Takes a turn: locks the schedule's row until the end of the transaction, in which nothing waits
   * for a lock for longer than a second from then on.
   *
   * @returns Whether the job of the turn before has not ended yet; undefined when the turn
   *   is somebody else's, has been, is paused, or has not come.
   */
  take(executor: Executor, turn: ScheduleTurn): Promise<{ readonly isOpen: boolean } | undefined>;
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
    async noteNext(executor, name, nextDueMs) {
      await executor.run(note.bind({ name, next_ms: nextDueMs }));
    },
    async take(executor, { name, lastDueMs, dueMs }) {
      const [row] = await executor.run(take.bind({ name, last_ms: lastDueMs, due_ms: dueMs }));
      return row === undefined ? undefined : { isOpen: row["open"] === true };
    },
    async moveOn(executor, { name, dueMs, nextDueMs, jobId }) {
      await executor.run(move.bind({ name, due_ms: dueMs, next_ms: nextDueMs, job_id: jobId }));
    },
  };
}
