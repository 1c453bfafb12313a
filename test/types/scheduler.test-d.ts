import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createScheduler, type Occurrence, type Schedules } from "drizzle-queue/scheduler";
import pg from "pg";
import { describe, expectTypeOf, test } from "vitest";
import { z } from "zod";

const jobs = defineJobs({
  report: defineJob({
    payload: z.object({ day: z.string(), format: z.enum(["pdf", "csv"]).default("pdf") }),
  }),
  sweep: defineJob({ payload: z.object({}) }),
  tick: defineJob({ payload: z.void() }),
  anything: defineJob({ payload: z.unknown() }),
});
const queue = createQueue({ jobs });
const db = drizzle(new pg.Pool());
const cron = "0 3 * * *";

describe("createScheduler", () => {
  test("takes a payload of the job that a schedule names, or a function that gives one", () => {
    createScheduler({
      queue,
      db,
      schedules: {
        fixed: { job: "report", cron, payload: { day: "2026-01-01" } },
        derived: {
          job: "report",
          cron,
          payload: (occurrence) => {
            expectTypeOf(occurrence).toEqualTypeOf<Occurrence>();
            return { day: occurrence.dueAt.toISOString(), format: "csv" };
          },
        },
        tick: { job: "tick", cron },
        anything: { job: "anything", cron, payload: ({ dueAt }) => [dueAt.toISOString()] },
        sweep: { job: "sweep", cron, payload: {}, options: { priority: 1 }, overlap: "skip" },
      },
    });
  });

  test("refuses what would be refused at run time", () => {
    createScheduler({
      queue,
      db,
      schedules: {
        // @ts-expect-error no job has this name
        misspelt: { job: "reprot", cron, payload: { day: "" } },
        // @ts-expect-error the day is a string
        wrong: { job: "report", cron, payload: { day: 1 } },
        // @ts-expect-error a function gives no other payload either
        derived: { job: "report", cron, payload: () => ({ day: 1 }) },
        // @ts-expect-error the payload is not optional
        without: { job: "report", cron },
        // @ts-expect-error a scheduled job is due at its occurrence
        delayed: { job: "report", cron, payload: { day: "" }, options: { delayMs: 5 } },
        // @ts-expect-error any key but none would be the same at each occurrence
        keyed: { job: "report", cron, payload: { day: "" }, options: { idempotencyKey: "x" } },
        // @ts-expect-error only two words are known
        overlapping: { job: "report", cron, payload: { day: "" }, overlap: "queue" },
      },
    });
    // @ts-expect-error schedules are required
    createScheduler({ queue, db });
  });

  test("takes schedules that were written apart", () => {
    const schedules = {
      nightly: { job: "report", cron, payload: ({ dueAt }) => ({ day: dueAt.toISOString() }) },
    } satisfies Schedules<typeof jobs>;
    createScheduler({ queue, db, schedules });
  });
});
