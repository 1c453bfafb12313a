import type { TableNames } from "../schema/table-names.js";
import { FRESH } from "./enqueue-parts.js";
import type { Executor } from "./executor.js";
import { type Template, template } from "./template.js";

/** A queue from which nobody claims. */
export interface PausedQueue {
  readonly queue: string;
  /** Since when. */
  readonly pausedAt: Date;
}

const pauseText = `
  insert into {controls} as control (queue, paused_at) values ($queue::text, statement_timestamp())
  on conflict (queue) do update set paused_at = excluded.paused_at where control.paused_at is null
  returning true as changed`;

/** All workers that listen are woken: those of this queue have it in their rows no more. */
const resumeText = `
  update {controls} set paused_at = null where queue = $queue::text and paused_at is not null
  returning true as changed, (select count(pg_notify('{channel}', id)) from {workers} where ${FRESH}) as woken`;

const listText = `
  select queue, date_part('epoch', paused_at) * 1000 as at from {controls}
  where paused_at is not null order by queue`;

/** What an operator says about whole queues. */
export interface QueueControls {
  /**
   * Keeps every claim that begins after the caller's commit from a queue.
   *
   * @returns Whether it was not paused before.
   */
  pause(executor: Executor, queue: string): Promise<boolean>;
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
  const changes = async (executor: Executor, statement: Template, queue: string) =>
    (await executor.run(statement.bind({ queue }))).length > 0;
  return {
    pause: (executor, queue) => changes(executor, pause, queue),
    resume: (executor, queue) => changes(executor, resume, queue),
    async list(executor) {
      const rows = await executor.run(list.bind({}));
      return rows.map((row) => ({
        queue: String(row["queue"]),
        pausedAt: new Date(Number(row["at"])),
      }));
    },
  };
}
