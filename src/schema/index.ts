import { createQueueTables, type QueueTables } from "./create-queue-tables.js";

export type { QueueControlsTable } from "./controls.js";
export { createQueueTables, type QueueTables } from "./create-queue-tables.js";
export type { JobOutcome, JobState } from "./job-states.js";
export type { QueueJobsTable, StoredError } from "./jobs.js";
export type { QueueProcessedKeysTable } from "./processed-keys.js";
export { queueExtrasSql } from "./queue-extras-sql.js";
export type { QueueSchedulesTable } from "./schedules.js";
export type { TablePlace } from "./table-names.js";
export type { QueueWorkersTable } from "./workers.js";

const tables = createQueueTables();

/** The jobs table, `public.queue_jobs`. */
export const queueJobs: QueueTables<"queue_">["queueJobs"] = tables.queueJobs;

/** The processed keys table, `public.queue_processed_keys`. */
export const queueProcessedKeys: QueueTables<"queue_">["queueProcessedKeys"] =
  tables.queueProcessedKeys;

/** The workers table, `public.queue_workers`. */
export const queueWorkers: QueueTables<"queue_">["queueWorkers"] = tables.queueWorkers;

/** The controls table, `public.queue_controls`. */
export const queueControls: QueueTables<"queue_">["queueControls"] = tables.queueControls;

/** The schedules table, `public.queue_schedules`. */
export const queueSchedules: QueueTables<"queue_">["queueSchedules"] = tables.queueSchedules;

/** A row of the jobs table. */
export type QueueJobRow = typeof queueJobs.$inferSelect;

/** A row of the processed keys table. */
export type QueueProcessedKeyRow = typeof queueProcessedKeys.$inferSelect;

/** A row of the workers table. */
export type QueueWorkerRow = typeof queueWorkers.$inferSelect;

/** A row of the controls table. */
export type QueueControlRow = typeof queueControls.$inferSelect;

/** A row of the schedules table. */
export type QueueScheduleRow = typeof queueSchedules.$inferSelect;
