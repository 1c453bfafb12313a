import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { textList } from "./list-literals.js";
import { template } from "./template.js";

/** What an enqueue has to know of a worker, to wake it. */
export interface WorkerRegistration {
  readonly workerId: string;
  /** Those that it serves. */
  readonly served: readonly string[];
  /** Those of which a new job is worth a notification. */
  readonly queues: readonly string[];
  readonly names: readonly string[];
  readonly pollIntervalMs: number;
  /** Whether an enqueue is to notify this worker. */
  readonly isWaiting: boolean;
}

/** What the worker learns by it. */
export interface Registered {
  /** Whether this very session listens. */
  readonly isListening: boolean;
  /** Which of the queues that it serves are paused. */
  readonly paused: readonly string[];
}

const registerText = `
  insert into {workers} as worker (id, queues, names, poll_interval_ms, waiting, started_at, seen_at)
  values ($worker, $queues::text::text[], $names::text::text[], $poll_interval_ms::int, $waiting::boolean,
    statement_timestamp(), statement_timestamp())
  on conflict (id) do update set queues = excluded.queues, waiting = excluded.waiting, seen_at = excluded.seen_at
  returning exists (select from pg_listening_channels() as channel where channel = $channel) as is_listening,
    (select json_agg(queue)::text from {controls} where paused_at is not null and queue = any($served::text::text[])) as paused`;

const unregisterText = `delete from {workers} where id = $worker`;

/** Rows of workers that were killed stay behind; any worker that starts clears them away. */
const forgetText = `
  delete from {workers} where id = any(array(
    select id from {workers} where seen_at < statement_timestamp() - interval '1 hour'
    for update skip locked
  ))`;

/** The statements about a worker's own row, which wake-ups look at. */
export function workerRow(tables: TableNames): {
  /**
   * Writes the row, or refreshes it. Sent on the connection that listens, it
   * is the proof that this connection is alive and still listens.
   */
  register(executor: Executor, registration: WorkerRegistration): Promise<Registered>;
  unregister(executor: Executor, workerId: string): Promise<void>;
  forgetDead(executor: Executor): Promise<void>;
} {
  const register = template("register", registerText, tables);
  const unregister = template("unregister", unregisterText, tables);
  const forget = template("forget", forgetText, tables);
  return {
    async register(executor, registration) {
      const [row] = await executor.run(
        register.bind({
          worker: registration.workerId,
          served: textList(registration.served),
          queues: textList(registration.queues),
          names: textList(registration.names),
          poll_interval_ms: registration.pollIntervalMs,
          waiting: registration.isWaiting,
          channel: tables.channel,
        }),
      );
      const paused = row?.["paused"];
      return {
        isListening: row?.["is_listening"] === true,
        paused: typeof paused === "string" ? (JSON.parse(paused) as string[]) : [],
      };
    },
    async unregister(executor, workerId) {
      await executor.run(unregister.bind({ worker: workerId }));
    },
    async forgetDead(executor) {
      await executor.run(forget.bind({}));
    },
  };
}
