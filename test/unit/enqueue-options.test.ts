import { describe, expect, test } from "vitest";
import { z } from "zod";
import { findDuplicates } from "../../src/enqueue/batch-duplicates.js";
import { checkOptions, keyOf } from "../../src/enqueue/enqueue-options.js";
import { prepareJob } from "../../src/enqueue/prepare-job.js";
import { defineJob } from "../../src/registry/define-job.js";
import { defineJobs } from "../../src/registry/define-jobs.js";

const definition = defineJob({
  payload: z.object({ id: z.string() }),
  idempotencyKey: (payload) => payload.id,
  queue: "reports",
  priority: 2,
  maxAttempts: 3,
});
const invalid = (named: string) =>
  expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(named) });

describe("checkOptions", () => {
  test("takes what is left out from the definition", () => {
    expect(checkOptions(definition, {})).toEqual({
      queue: "reports",
      priority: 2,
      maxAttempts: 3,
      runAt: null,
      delayMs: 0,
    });
  });

  test("lets options win, priority 0 among them", () => {
    const runAt = new Date("2030-01-01T12:00:00Z");
    expect(checkOptions(definition, { priority: 0, queue: "q", maxAttempts: 1, runAt })).toEqual({
      queue: "q",
      priority: 0,
      maxAttempts: 1,
      runAt: "2030-01-01T12:00:00.000Z",
      delayMs: 0,
    });
  });

  test("allows an instant in the past", () => {
    expect(checkOptions(definition, { runAt: new Date(0) }).runAt).toBe("1970-01-01T00:00:00.000Z");
  });

  test.each<[string, object | null]>([
    ["runAt", { runAt: new Date(Number.NaN) }],
    ["runAt", { runAt: "2030-01-01" }],
    ["runAt", { runAt: new Date(8.64e15) }],
    ["runAt", { runAt: new Date("-000001-01-01T00:00:00Z") }],
    ["runAt and delayMs", { runAt: new Date(), delayMs: 0 }],
    ["delayMs", { delayMs: -1 }],
    ["delayMs", { delayMs: Number.NaN }],
    ["delayMs", { delayMs: 1e15 }],
    ["delayMs", { delayMs: "5" }],
    ["priority", { priority: -1 }],
    ["priority", { priority: 10 }],
    ["priority", { priority: 0.5 }],
    ["maxAttempts", { maxAttempts: 0 }],
    ["maxAttempts", { maxAttempts: null }],
    ["queue", { queue: "" }],
    ["queue", { queue: "\ud800" }],
    ['"key"', { key: "x" }],
    ["enqueue options", null],
  ])("refuses a wrong %s by name: %j", (named, options) => {
    expect(() => checkOptions(definition, options as never)).toThrow(invalid(named));
  });
});

describe("keyOf", () => {
  test("derives the key from the parsed payload, unless an option gives one", () => {
    expect(keyOf("report", definition, {}, { id: "r1" })).toBe("r1");
    expect(keyOf("report", definition, { idempotencyKey: "other" }, { id: "r1" })).toBe("other");
    expect(keyOf("report", definition, { idempotencyKey: null }, { id: "r1" })).toBeNull();
    expect(keyOf("report", defineJob({ payload: z.unknown() }), {}, 1)).toBeNull();
  });

  test("keeps the parts of a key apart", () => {
    const keys = [["a", "bc"], ["ab", "c"], ["a", "b", "c"], ["1"], [1]].map((idempotencyKey) =>
      keyOf("report", definition, { idempotencyKey }, {}),
    );
    expect(new Set(keys).size).toBe(5);
  });

  test.each<[string, unknown]>([
    ["an empty key", ""],
    ["no parts", []],
    ["a key of 513 bytes", "k".repeat(513)],
    ["a key of 10 kB", "k".repeat(10_000)],
    ["parts that are too long together", ["k".repeat(300), "k".repeat(300)]],
    ["NUL", "a\0b"],
    ["NUL in a part", ["a\0b"]],
    ["a lone surrogate", "\udc00"],
    ["a number", 5],
    ["NaN in a part", [Number.NaN]],
    ["an object in a part", [{}]],
  ])("refuses %s", (_, idempotencyKey) => {
    expect(() =>
      keyOf("report", definition, { idempotencyKey: idempotencyKey as string }, {}),
    ).toThrow(invalid("idempotencyKey"));
  });

  test("takes 512 bytes, quotes, and what looks like SQL", () => {
    for (const key of ["k".repeat(512), "🙂".repeat(128), `'; drop table "x" --`, "$1"]) {
      expect(keyOf("report", definition, { idempotencyKey: key }, {})).toBe(key);
    }
  });

  test("refuses undefined from a key function, so that a typo is no missing key", () => {
    const careless = defineJob({
      payload: z.unknown(),
      idempotencyKey: () => undefined as unknown as string,
    });
    expect(() => keyOf("report", careless, {}, {})).toThrow(
      invalid('Job "report": idempotencyKey must be a string, got undefined'),
    );
  });

  test("never shows the key in its error", () => {
    expect(() =>
      keyOf("report", definition, { idempotencyKey: `secret${"x".repeat(600)}` }, {}),
    ).toThrow(expect.not.objectContaining({ message: expect.stringContaining("secret") }));
  });
});

describe("findDuplicates", () => {
  const admission = {
    jobs: defineJobs({
      a: defineJob({ payload: z.unknown() }),
      b: defineJob({ payload: z.unknown() }),
    }),
    maxPayloadBytes: 1_000,
  };
  const job = (name: string, payload: unknown, idempotencyKey: string | null) =>
    prepareJob(admission, name, payload, { idempotencyKey });

  test("maps each repeat to the first of its name and key", () => {
    const jobs = [
      job("a", 1, "k"),
      job("b", 1, "k"),
      job("a", 1, "k"),
      job("a", 1, null),
      job("a", 1, null),
    ];
    const { unique, placeOf, conflicts } = findDuplicates(jobs);
    expect(placeOf).toEqual([0, 1, 0, 2, 3]);
    expect(unique).toEqual([jobs[0], jobs[1], jobs[3], jobs[4]]);
    expect(conflicts).toEqual([]);
  });

  test("takes another key order for the same input, and another value for a conflict", () => {
    const jobs = [
      job("a", { x: 1, y: { p: 1, q: 2 } }, "k"),
      job("a", { y: { q: 2, p: 1 }, x: 1 }, "k"),
      job("a", { x: 1, y: { p: 1, q: 3 } }, "k"),
    ];
    expect(findDuplicates(jobs).conflicts).toEqual([2]);
  });
});
