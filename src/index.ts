export { createQueue, type Queue, type QueueOptions } from "./create-queue.js";
export type { Enqueue, Enqueued, EnqueueItem, PayloadOf } from "./enqueue/enqueue.js";
export type { EnqueueOptions } from "./enqueue/enqueue-options.js";
export {
  AttemptError,
  type AttemptErrorCode,
  type AttemptReference,
  FailJob,
  type Issue,
  isAttemptError,
  isQueueError,
  QueueError,
  type QueueErrorCode,
  SnoozeJob,
} from "./errors.js";
export type {
  ConnectionRole,
  EventAttempt,
  EventError,
  EventJob,
  EventOccurrence,
  Instrumentation,
  QueueEvent,
} from "./instrumentation/instrumentation.js";
export type { PgExecutor } from "./queries/executor.js";
export type { PgDatabase, PgTransaction, RequireTx, TxOf } from "./queries/transaction.js";
export {
  type ExponentialOptions,
  exponential,
  type FixedOptions,
  fixed,
} from "./registry/backoff.js";
export { defineJob, type JobSpec } from "./registry/define-job.js";
export { defineJobs } from "./registry/define-jobs.js";
export type {
  Backoff,
  IdempotencyKey,
  JobDefinition,
  JobMap,
  JobSettings,
  PayloadInput,
  PayloadOutput,
  ResultInput,
  ResultOutput,
  RetryContext,
  RetryDecision,
} from "./registry/job-definition.js";
export type { JobOutcome, JobState } from "./schema/job-states.js";
export type { TableNames, TablePlace } from "./schema/table-names.js";
