import type { Instrumentation, QueueEvent } from "../instrumentation/instrumentation.js";
import { checkFunction } from "../registry/option-checks.js";

/** A logger that takes the text first, such as `console`. */
export interface ConsoleLogger {
  debug(message: string, fields: object): void;
  info(message: string, fields: object): void;
  warn(message: string, fields: object): void;
  error(message: string, fields: object): void;
}

/** A logger that takes the fields first, such as pino; it is known by its `bindings`. */
export interface PinoLogger {
  bindings(): object;
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

type Level = "debug" | "info" | "warn" | "error";

/** How loud each event is: what needs nobody is debug, what needs somebody is warn or error. */
const LEVELS: Readonly<Record<QueueEvent["type"], Level>> = {
  "job.enqueued": "debug",
  "job.claimed": "debug",
  "job.started": "debug",
  "job.done": "info",
  "job.snoozed": "info",
  "job.released": "info",
  "job.cancelled": "info",
  "job.failed": "error",
  "attempt.errored": "warn",
  "lease.expired": "warn",
  "lease.lost": "warn",
  "leases.renewed": "debug",
  "handler.stuck": "error",
  "handler.errored_after_commit": "error",
  "statement.errored": "warn",
  "connection.lost": "warn",
  "connection.restored": "info",
  "event_loop.blocked": "warn",
  "jobs.pruned": "info",
  "processed_keys.pruned": "info",
  "queue.paused": "info",
  "queue.resumed": "info",
  "scheduler.started": "info",
  "scheduler.stopped": "info",
  "schedule.enqueued": "info",
  "schedule.skipped": "warn",
  "schedule.errored": "error",
  "worker.started": "info",
  "worker.stopped": "info",
};

/**
 * Writes every event to a logger of the shape of `console` or of pino.
 *
 * @throws {QueueError} `INVALID_OPTION` when it lacks one of the four levels.
 * @example
 * createWorker({ queue, db, handlers, instrumentation: logEvents(console) });
 */
export function logEvents(logger: ConsoleLogger | PinoLogger): Instrumentation {
  const given = logger as Partial<ConsoleLogger> | null | undefined;
  for (const level of ["debug", "info", "warn", "error"] as const)
    checkFunction(`logEvents(): ${level} of the logger`, given?.[level]);
  return {
    event({ type, ...fields }) {
      const level = LEVELS[type];
      if ("bindings" in logger) logger[level]({ event: type, ...fields }, type);
      else logger[level](type, fields);
    },
  };
}
