/** Door "./scheduler": enqueueing jobs at recurring times. */
export { createScheduler, type Scheduler, type SchedulerOptions } from "./create-scheduler.js";
export type {
  Occurrence,
  OccurrenceOptions,
  ScheduleOf,
  ScheduleSettings,
  Schedules,
} from "./schedule-options.js";
