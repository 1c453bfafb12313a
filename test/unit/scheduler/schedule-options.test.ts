import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs, isQueueError } from "drizzle-queue";
import { createScheduler } from "drizzle-queue/scheduler";
import pg from "pg";
import { describe, expect, test } from "vitest";
import { z } from "zod";

const queue = createQueue({
  jobs: defineJobs({
    note: defineJob({ payload: z.object({ text: z.string() }) }),
    keyed: defineJob({ payload: z.object({ day: z.string() }), idempotencyKey: (p) => p.day }),
  }),
});
const db = drizzle(new pg.Pool());
const whole = { job: "note", cron: "0 3 * * *", payload: { text: "x" } };
const keyed = { job: "keyed", cron: "0 * * * *" };

const create = (options: object) => createScheduler(options as never);
const refusalOf = (options: object): { code: string; message: string } => {
  try {
    create(options);
  } catch (error) {
    if (isQueueError(error)) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error("It was accepted.");
};
const scheduled = (schedule: unknown) => ({ queue, db, schedules: { nightly: schedule } });

describe("createScheduler() refuses, before any SQL,", () => {
  test.each([
    ["no queue", { db, schedules: { nightly: whole } }, "queue must be made by createQueue()"],
    ["no database", { queue, schedules: { nightly: whole } }, "db must be a Drizzle database"],
    ["no schedules", { queue, db }, "schedules must be an object with a schedule or more"],
    ["an empty list", { queue, db, schedules: {} }, "schedules must be an object with"],
    ["an unknown option", { queue, db, schedules: {}, poll: 1 }, 'unknown option "poll"'],
    ["an empty name", { queue, db, schedules: { "": whole } }, "a schedule's name must be 1 to"],
    ["a schedule that is none", scheduled(5), "schedules.nightly must be an object"],
    ["an option of elsewhere", scheduled({ ...whole, priority: 1 }), 'unknown option "priority"'],
    [
      "a time beside the pattern",
      scheduled({ ...whole, options: { runAt: new Date() } }),
      "due at",
    ],
    ["another overlap", scheduled({ ...whole, overlap: "wait" }), "overlap must be"],
    ["a lateness below a second", scheduled({ ...whole, maxLateMs: 5 }), "maxLateMs must be"],
    ["no pattern", scheduled({ ...whole, cron: undefined }), "schedules.nightly.cron must be"],
    ["a wrong pattern", scheduled({ ...whole, cron: "0 25 * * *" }), "schedules.nightly.cron"],
    ["an impossible date", scheduled({ ...whole, cron: "0 0 30 2 *" }), "schedules.nightly.cron"],
    ["an unknown zone", scheduled({ ...whole, timeZone: "Mars/Olympus" }), "nightly.timeZone"],
    [
      "an option of enqueue out of its range",
      scheduled({ ...whole, options: { priority: 10 } }),
      "priority must be",
    ],
    [
      "a key that is the same each time",
      scheduled({ ...keyed, payload: { day: "same" } }),
      "schedules.nightly: Its idempotency key is the same at its next occurrence",
    ],
    ["a listener that is none", { ...scheduled(whole), instrumentation: {} }, "instrumentation"],
  ])("%s", (_, options, text) => {
    const { code, message } = refusalOf(options);
    expect(code).toBe("INVALID_OPTION");
    expect(message).toContain(text);
  });

  test("a job that is not defined", () => {
    expect(refusalOf(scheduled({ ...whole, job: "none" })).code).toBe("UNKNOWN_JOB");
  });

  test("a payload that does not fit, also one that a function gives", () => {
    for (const payload of [{ text: 1 }, () => ({ text: 1 })])
      expect(refusalOf(scheduled({ ...whole, payload })).code).toBe("INVALID_PAYLOAD");
  });

  test.each([
    ["of the hour, each hour", "0 * * * *", (at: Date) => `${at.getUTCHours()}`],
    ["of the minute, each minute", "* * * * *", (at: Date) => `${at.getUTCMinutes()}`],
    ["of the day of the week, each day", "0 3 * * *", (at: Date) => `${at.getUTCDay()}`],
    ["of the month, each month", "0 0 1 * *", (at: Date) => `${at.getUTCMonth()}`],
    ["in a year that ends before long", "0 0 1 1 * ", () => "same"],
  ])("a key that comes again: %s", (_, cron, keyOf) => {
    const payload = ({ dueAt }: { dueAt: Date }) => ({ day: keyOf(dueAt) });
    expect(refusalOf(scheduled({ ...keyed, cron, payload })).message).toContain("is the same at");
  });

  test("an async payload function, and lets its rejection end nothing", async () => {
    const unhandled: unknown[] = [];
    const listener = (reason: unknown) => void unhandled.push(reason);
    process.on("unhandledRejection", listener);
    const payload = async () => {
      throw new Error("nobody awaits this");
    };
    expect(refusalOf(scheduled({ ...whole, payload })).message).toContain(
      "schedules.nightly.payload must not be an async function",
    );
    await new Promise((done) => setTimeout(done, 20));
    process.off("unhandledRejection", listener);
    expect(unhandled).toEqual([]);
  });

  test("a list, and what { __proto__ } makes", () => {
    for (const schedules of [[whole], { __proto__: whole, x: whole }])
      expect(refusalOf({ queue, db, schedules }).message).toContain("schedules must be an object");
  });

  test("a function that throws, with what it throws", () => {
    const payload = () => {
      throw new RangeError("mine");
    };
    expect(() => create(scheduled({ ...whole, payload }))).toThrow(RangeError);
  });

  test("a database on another driver", () => {
    const other = { transaction: () => undefined, execute: () => undefined };
    const { code, message } = refusalOf({ ...scheduled(whole), db: other });
    expect(code).toBe("UNSUPPORTED_DRIVER");
    expect(message).toContain("createScheduler()");
  });
});

describe("createScheduler() accepts", () => {
  test("a key that changes, by the hour, the day or the month", () => {
    for (const length of [13, 10, 7]) {
      const payload = ({ dueAt }: { dueAt: Date }) => ({
        day: dueAt.toISOString().slice(0, length),
      });
      expect(() => create(scheduled({ ...keyed, payload }))).not.toThrow();
    }
  });

  test("a pattern whose year has passed, since its last occurrence may have been missed", () => {
    const cron = "0 0 3 31 12 * 2025";
    expect(() => create(scheduled({ ...whole, cron }))).not.toThrow();
  });

  test("a key that is always the same where it is told to have none", () => {
    const always = { ...keyed, payload: { day: "same" }, options: { idempotencyKey: null } };
    expect(() => create(scheduled(always))).not.toThrow();
  });
});
