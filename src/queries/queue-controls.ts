import type { TableNames } from "../schema/table-names.js";
import { FRESH } from "./enqueue-parts.js";
import type { Executor } from "./executor.js";
import { template } from "./template.js";

/** The payload of a notification that is for every worker: what is said about whole queues has changed. */
export const CONTROLS_CHANGED = "controls";

/** A queue from which nobody claims. */
export interface PausedQueue {
  readonly queue: string;
  /** Since when. */
  readonly pausedAt: Date;
}

/**
 * What became of a queue that was to be paused: `paused` it is · `paused_unknown` it is too, but no definition,
 * open job or worker that can be seen has such a queue, so its name may be misspelt · `unchanged` it was paused before.
 */
export type PauseAnswer = "paused" | "paused_unknown" | "unchanged";

/** All workers that listen are told: what they have fetched ahead of this queue is to be given back. */
const tell = `(select count(pg_notify('{channel}', '${CONTROLS_CHANGED}')) from (select from {workers} where ${FRESH} limit 1) as worker)`;

const pauseText = `
  insert into {controls} as control (queue, paused_at) values ($queue::text, statement_timestamp())
  on conflict (queue) do update set paused_at = excluded.paused_at where control.paused_at is null
  returning $is_defined::boolean
    or exists (select from {jobs} where queue = $queue::text and finished_at is null and blockers = 0 limit 1)
    or exists (select from {workers} where $queue::text = any(queues)) as known, ${tell} as told`;

/** The row goes: each claim reads this table. */
const resumeText = `
  delete from {controls} where queue = $queue::text and paused_at is not null
  returning true as changed, ${tell} as told`;

const listText = `
  select queue, date_part('epoch', paused_at) * 1000 as at from {controls}
  where paused_at is not null order by queue`;

/** What an operator says about whole queues. */
export interface QueueControls {
  /** Keeps every claim that begins after the caller's commit from a queue; `isDefined`: a definition names it. */
  pause(executor: Executor, queue: string, isDefined: boolean): Promise<PauseAnswer>;
  /**
   * Lets it be claimed from again, and wakes the workers.
   *
   * @returns Whether it was paused.
   */
  resume(executor: Executor, queue: string): Promise<boolean>;
  list(executor: Executor): Promise<readonly PausedQueue[]>;
}

/** The statements about whole queues. Two that are about one queue wait for each other. */
export function queueControls(tables: TableNames): QueueControls {
  const pause = template("pause_queue", pauseText, tables);
  const resume = template("resume_queue", resumeText, tables);
  const list = template("list_paused_queues", listText, tables);
  return {
    async pause(executor, queue, isDefined) {
      const [row] = await executor.run(pause.bind({ queue, is_defined: isDefined }));
      if (row === undefined) return "unchanged";
      return row["known"] === true ? "paused" : "paused_unknown";
    },
    async resume(executor, queue) {
      return (await executor.run(resume.bind({ queue }))).length > 0;
    },
    async list(executor) {
      const rows = await executor.run(list.bind({}));
      return rows.map((row) => ({
        queue: String(row["queue"]),
        pausedAt: new Date(Number(row["at"])),
      }));
    },
  };
}
