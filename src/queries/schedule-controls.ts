import type { TableNames } from "../schema/table-names.js";
import type { Executor, Row } from "./executor.js";
import { instant, instantOrNull } from "./stored-job.js";
import { template } from "./template.js";

/** How far a schedule has come, as its row tells. */
export interface StoredSchedule {
  readonly name: string;
  /** Up to this time all occurrences are enqueued or skipped; of a schedule that has not run yet, when it was first seen or resumed. */
  readonly lastDueAt: Date;
  /** The occurrence after that, as the last scheduler that looked has it; null: there is none, or none has looked yet. */
  readonly nextDueAt: Date | null;
  /** The latest job that was enqueued for it; its row may be gone. */
  readonly lastJobId: number | null;
  /** Since when nothing is enqueued; null: it is not paused. */
  readonly pausedAt: Date | null;
}

/**
 * What became of a schedule that was to be paused: `paused` it is · `unchanged` it was paused before ·
 * `missing` no scheduler has seen one of this name.
 */
export type PauseScheduleAnswer = "paused" | "unchanged" | "missing";

/** What became of one that was to be resumed: `resumed` it is · `unchanged` it was not paused · `missing` as above. */
export type ResumeScheduleAnswer = "resumed" | "unchanged" | "missing";

/** Changes a schedule that is paused, or that is not; tells both from one that is not there. */
const changeText = (isPaused: boolean, change: string): string => `
  with found as (
    -- Locked first: what is decided on is what the row says then, not what it said when this began.
    select name, paused_at is not null as is_paused from {schedules} where name = $name::text for no key update
  ), changed as (
    update {schedules} as schedule set ${change}
    from found where schedule.name = found.name and found.is_paused = ${isPaused}
    returning schedule.name
  )
  select exists (select from changed) as changed from found`;

const pauseText = changeText(false, "paused_at = statement_timestamp()");

/** What fell into the pause is passed over. A time ahead of the clock stays: what is enqueued once is not again. */
const resumeText = changeText(
  true,
  `paused_at = null, next_due_at = null,
    last_due_at = greatest(last_due_at, date_trunc('milliseconds', statement_timestamp()))`,
);

const inMs = (column: string): string => `date_part('epoch', ${column}) * 1000 as ${column}`;

const listText = `
  select to_json(schedule)::text as schedule from (
    select name, ${inMs("last_due_at")}, ${inMs("next_due_at")}, last_job_id, ${inMs("paused_at")} from {schedules}
  ) as schedule order by name`;

/** What `to_json(row)::text` makes of it: times are milliseconds since 1970, an infinite one is a string. */
interface ScheduleJson {
  readonly name: string;
  readonly last_due_at: number | string;
  readonly next_due_at: number | string | null;
  readonly last_job_id: number | null;
  readonly paused_at: number | string | null;
}

/** What an operator says about schedules. */
export interface ScheduleControls {
  /** Keeps every scheduler, from the caller's commit on, from enqueueing an occurrence of it. */
  pause(executor: Executor, name: string): Promise<PauseScheduleAnswer>;
  /** Lets its occurrences be enqueued again, from now on. */
  resume(executor: Executor, name: string): Promise<ResumeScheduleAnswer>;
  list(executor: Executor): Promise<readonly StoredSchedule[]>;
}

/** The statements about schedules. They wait for each other, and for a scheduler that has just taken a turn. */
export function scheduleControls(tables: TableNames): ScheduleControls {
  const pause = template("pause_schedule", pauseText, tables);
  const resume = template("resume_schedule", resumeText, tables);
  const list = template("list_schedules", listText, tables);
  return {
    async pause(executor, name) {
      const [row] = await executor.run(pause.bind({ name }));
      if (row === undefined) return "missing";
      return row["changed"] === true ? "paused" : "unchanged";
    },
    async resume(executor, name) {
      const [row] = await executor.run(resume.bind({ name }));
      if (row === undefined) return "missing";
      return row["changed"] === true ? "resumed" : "unchanged";
    },
    async list(executor) {
      return (await executor.run(list.bind({}))).map(readSchedule);
    },
  };
}

function readSchedule(row: Row): StoredSchedule {
  const json: ScheduleJson = JSON.parse(String(row["schedule"]));
  return {
    name: json.name,
    lastDueAt: instant(json.last_due_at),
    nextDueAt: instantOrNull(json.next_due_at),
    lastJobId: json.last_job_id,
    pausedAt: instantOrNull(json.paused_at),
  };
}
