import { type FieldFault, testsIn } from "./fault.js";

/** E: schedules. */
export const SCHEDULES: readonly FieldFault[] = [
  {
    id: "E86",
    fault:
      "Where the clock is changed, a scheduled job runs twice, or not at all; an impossible date keeps the search for the next run busy for ever.",
    outcome:
      "What has a fixed time runs once a day, whatever the clock skips or repeats; intervals keep their spacing; impossible dates are refused when the scheduler is created.",
    seen: [
      "kelektiv/node-cron#563",
      "citusdata/pg_cron#16",
      "rundeck/rundeck#6879",
      "woocommerce/action-scheduler#885",
    ],
    tests: testsIn(
      "unit/scheduler/occurrences.test.ts",
      "is due as by a walk over every minute, next and latest",
      "%s, which is never due",
    ),
  },
  {
    id: "E87",
    fault: "Two schedulers enqueue one occurrence, or the one that is left enqueues none.",
    outcome: "Each occurrence becomes one job, however schedulers die, freeze or are cut off.",
    seen: ["riverqueue/river#1251", "rails/solid_queue#763"],
    tests: [
      ...testsIn(
        "guarantees/a-schedule-outlives-its-schedulers.test.ts",
        "each occurrence becomes at most one job, and most do, however schedulers are killed, stopped and cut off, and the next ones go on",
      ),
      ...testsIn(
        "scheduler/start-and-stop.test.ts",
        "makes one job of an occurrence whose connection is lost %s",
        "gives up a connection that falls silent, and stops in time",
      ),
    ],
  },
  {
    id: "E88",
    fault: "After an outage all that was missed is enqueued at once.",
    outcome:
      "The latest occurrence that was missed becomes a job, and the event tells how many were.",
    seen: ["Jako/CronManager#67", "NousResearch/hermes-agent#106255"],
    tests: testsIn(
      "scheduler/turns.test.ts",
      "makes up for what it missed by one job, that of the latest occurrence",
      "skips what is later than it may be, and goes on",
    ),
  },
];
