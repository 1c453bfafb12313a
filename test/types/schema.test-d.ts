import {
  createQueueTables,
  type QueueJobRow,
  queueControls,
  queueJobs,
  queueProcessedKeys,
  queueSchedules,
  queueWorkers,
} from "drizzle-queue/schema";
import { describe, expectTypeOf, test } from "vitest";
import {
  plainControls,
  plainJobs,
  plainProcessedKeys,
  plainSchedules,
  plainWorkers,
} from "../migrations/fixtures/app/plain-tables.js";

// The same proofs on both Drizzle majors, from the built declarations:
// test/migrations/app-schema.test.ts.

describe("a table's rows and inserts are those of a table written by hand", () => {
  test("jobs", () => {
    expectTypeOf(queueJobs.$inferSelect).toEqualTypeOf(plainJobs.$inferSelect);
    expectTypeOf(queueJobs.$inferInsert).toEqualTypeOf(plainJobs.$inferInsert);
  });

  test("processed keys", () => {
    expectTypeOf(queueProcessedKeys.$inferSelect).toEqualTypeOf(plainProcessedKeys.$inferSelect);
    expectTypeOf(queueProcessedKeys.$inferInsert).toEqualTypeOf(plainProcessedKeys.$inferInsert);
  });

  test("workers", () => {
    expectTypeOf(queueWorkers.$inferSelect).toEqualTypeOf(plainWorkers.$inferSelect);
    expectTypeOf(queueWorkers.$inferInsert).toEqualTypeOf(plainWorkers.$inferInsert);
  });

  test("controls", () => {
    expectTypeOf(queueControls.$inferSelect).toEqualTypeOf(plainControls.$inferSelect);
    expectTypeOf(queueControls.$inferInsert).toEqualTypeOf(plainControls.$inferInsert);
  });

  test("schedules", () => {
    expectTypeOf(queueSchedules.$inferSelect).toEqualTypeOf(plainSchedules.$inferSelect);
    expectTypeOf(queueSchedules.$inferInsert).toEqualTypeOf(plainSchedules.$inferInsert);
  });

  test("tables elsewhere", () => {
    const elsewhere = createQueueTables({ schema: "queue", prefix: "" });
    expectTypeOf(elsewhere.queueJobs.$inferSelect).toEqualTypeOf(plainJobs.$inferSelect);
    expectTypeOf(elsewhere.queueJobs._.name).toEqualTypeOf<"jobs">();
  });
});

describe("a row", () => {
  test("has the closed list of states, a number as id and dates as times", () => {
    expectTypeOf<QueueJobRow["status"]>().toEqualTypeOf<
      "queued" | "running" | "done" | "failed" | "cancelled"
    >();
    expectTypeOf<QueueJobRow["outcome"]>().toEqualTypeOf<"done" | "failed" | "cancelled" | null>();
    expectTypeOf<QueueJobRow["id"]>().toEqualTypeOf<number>();
    expectTypeOf<QueueJobRow["leaseUntil"]>().toEqualTypeOf<Date | null>();
  });
});
