import { describe, expect, test } from "vitest";
import { z } from "zod";
import * as mini from "zod/mini";
import { createQueue } from "../../src/create-queue.js";
import { defineJob } from "../../src/registry/define-job.js";
import { defineJobs, definitionOf } from "../../src/registry/define-jobs.js";

const payload = z.object({ id: z.string() });
const invalid = (named: string) =>
  expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(named) });

describe("defineJob", () => {
  test("fills in the defaults", () => {
    expect(defineJob({ payload })).toMatchObject({
      queue: "default",
      priority: 5,
      maxAttempts: 10,
      leaseMs: 30_000,
      timeoutMs: 900_000,
      result: undefined,
      backoff: undefined,
      idempotencyKey: undefined,
    });
  });

  test("keeps null as no time limit", () => {
    expect(defineJob({ payload, timeoutMs: null }).timeoutMs).toBeNull();
  });

  test("takes schemas of zod/mini", () => {
    expect(defineJob({ payload: mini.object({ id: mini.string() }) }).priority).toBe(5);
  });

  test.each([
    ["queue", { queue: "" }],
    ["queue", { queue: "q".repeat(129) }],
    ["queue", { queue: "ü".repeat(65) }],
    ["queue", { queue: "a\0b" }],
    ["queue", { queue: "\ud800" }],
    ["priority", { priority: 10 }],
    ["priority", { priority: 1.5 }],
    ["maxAttempts", { maxAttempts: 0 }],
    ["maxAttempts", { maxAttempts: null }],
    ["priority", { priority: null }],
    ["queue", { queue: null }],
    ["leaseMs", { leaseMs: null }],
    ["retryIf", { retryIf: null }],
    ["maxAttempts", { maxAttempts: 2_147_483_648 }],
    ["leaseMs", { leaseMs: 0 }],
    ["leaseMs", { leaseMs: 499 }],
    ["timeoutMs", { timeoutMs: 0 }],
    ["timeoutMs", { timeoutMs: 2_147_483_648 }],
    ["timeoutMs", { timeoutMs: Number.NaN }],
    ["backoff", { backoff: 5 }],
    ["retryIf", { retryIf: true }],
    ["idempotencyKey", { idempotencyKey: "id" }],
    ["result", { result: {} }],
    ['"lease"', { lease: 5 }],
    ["payload", { payload: { parse: () => 1 } }],
  ])("refuses a wrong %s by name: %j", (named, options) => {
    expect(() => defineJob({ payload, ...(options as object) })).toThrow(invalid(named));
  });

  test.each([
    ["handler", () => undefined, "createWorker({ queue, db, handlers"],
    ["name", "report", "defineJobs({ report: defineJob("],
  ])("says where a %s belongs", (option, value, place) => {
    const spec = { payload, [option]: value };
    for (const said of [`defineJob(): unknown option "${option}"`, place])
      expect(() => defineJob(spec)).toThrow(invalid(said));
  });

  test.each([[undefined], [null], [5]])("refuses %s in place of a definition", (spec) => {
    expect(() => defineJob(spec as never)).toThrow(invalid("defineJob()"));
  });
});

describe("defineJobs", () => {
  const hostile = [
    "constructor",
    "__proto__",
    "toString",
    "hasOwnProperty",
    'a"b',
    "a'b; drop",
    "ä 日本 🙂",
    "then",
  ];

  test.each(hostile)("takes a job called %s", (name) => {
    const definition = defineJob({ payload });
    const jobs = defineJobs({ [name]: definition });
    expect(definitionOf(jobs, name)).toBe(definition);
    expect(Object.keys(jobs)).toEqual([name]);
    expect(Object.getPrototypeOf(jobs)).toBeNull();
  });

  test.each(["constructor", "__proto__", "toString"])(
    "does not find %s where nobody defined it",
    (name) => {
      const jobs = defineJobs({ report: defineJob({ payload }) });
      expect(() => definitionOf(jobs, name)).toThrow(
        expect.objectContaining({ code: "UNKNOWN_JOB" }),
      );
    },
  );

  test("says so when __proto__ was written as a plain key", () => {
    expect(() => defineJobs({ __proto__: defineJob({ payload }) } as never)).toThrow(
      invalid("__proto__"),
    );
  });

  test.each(["", "x".repeat(129), "a\0b", "\udc00x"])("refuses the name %j", (name) => {
    expect(() => defineJobs({ [name]: defineJob({ payload }) })).toThrow(invalid("a job's name"));
  });

  test("refuses what defineJob did not make", () => {
    expect(() => defineJobs({ report: { payload } as never })).toThrow(invalid("report"));
  });

  test("freezes the map", () => {
    expect(Object.isFrozen(defineJobs({ report: defineJob({ payload }) }))).toBe(true);
  });
});

describe("createQueue", () => {
  const jobs = defineJobs({ report: defineJob({ payload }) });

  test("gives a frozen object whose functions need no this", async () => {
    const queue = createQueue({ jobs });
    expect(Object.isFrozen(queue)).toBe(true);
    expect(queue.tables.jobs).toBe('"public"."queue_jobs"');
    const { enqueue, enqueueMany, enqueueNow } = queue;
    const tx = {
      execute: () => Promise.resolve([{ id: "7", drawn: "7" }]),
      selectDistinctOn: () => undefined,
      rollback: () => undefined,
    } as never;
    const created = { id: 7, name: "report", created: true, status: "queued" };
    expect(await enqueue(tx, "report", { id: "a" })).toEqual(created);
    expect(await enqueueNow(tx, "report", { id: "a" })).toEqual(created);
    const items = [{ name: "report" as const, payload: { id: "a" } }];
    expect(await enqueueMany(tx, items)).toEqual([created]);
  });

  test.each([
    ["maxPayloadBytes", { maxPayloadBytes: 0 }],
    ["maxPayloadBytes", { maxPayloadBytes: 40_000_000 }],
    ["instrumentation", { instrumentation: {} }],
    ["instrumentation", { instrumentation: null }],
    ["schema", { tables: { schema: "" } }],
    ['"table"', { tables: { table: "x" } }],
    ['"job"', { job: 1 }],
    ["jobs", { jobs: null }],
  ])("refuses a wrong %s by name", (named, options) => {
    expect(() => createQueue({ jobs, ...(options as object) })).toThrow(invalid(named));
  });
});
