/** Door "./worker": running jobs. */
export { createWorker, type StopReport, type Worker, type WorkerOptions } from "./create-worker.js";
export {
  type Commit,
  defineHandlers,
  type Handler,
  type HandlerContext,
  type HandlerFor,
  type HandlerJob,
  type Handlers,
} from "./handlers.js";
export { type ConsoleLogger, logEvents, type PinoLogger } from "./log-events.js";
export type { Days, Retention } from "./retention.js";
export type { WorkerSettings } from "./worker-options.js";
