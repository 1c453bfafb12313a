/** Door "./testing": for the tests of apps. */
export { type DrainOptions, drainJobs } from "./drain-jobs.js";
export type { DrainedJob, DrainReport, ErroredJob } from "./drain-log.js";
export type { HandlerEnd } from "./handler-end.js";
export type { AbortCode } from "./run-attempt.js";
export { type RunHandlerOptions, runHandler } from "./run-handler.js";
