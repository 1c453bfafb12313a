export type { CancelAnswer } from "../queries/cancel-jobs.js";
export type { JobCounts } from "../queries/count-jobs.js";
export type { PauseAnswer, PausedQueue } from "../queries/queue-controls.js";
export type { RequeueAnswer } from "../queries/requeue-jobs.js";
export type { RunNowAnswer } from "../queries/run-jobs-now.js";
export type {
  PauseScheduleAnswer,
  ResumeScheduleAnswer,
  StoredSchedule,
} from "../queries/schedule-controls.js";
export type { StoredJob, StoredJobDetails } from "../queries/stored-job.js";
export type { StoredError } from "../schema/jobs.js";
export type { JobAnswer } from "./change-jobs.js";
export { type Admin, createAdmin } from "./create-admin.js";
export type { JobFilter, JobPage, NamedFilter } from "./job-pages.js";
