import { describe, expect, test } from "vitest";
import { FailJob } from "../../../src/errors.js";
import { attemptEventError, eventError } from "../../../src/instrumentation/instrumentation.js";
import { errorLine, storedError } from "../../../src/worker/stored-error.js";

const throwingGetter = Object.defineProperty(new Error("x"), "message", {
  get: () => {
    throw new Error("gotcha");
  },
});
const hostileProxy = new Proxy(
  {},
  {
    get: () => {
      throw new Error("no");
    },
    has: () => {
      throw new Error("no");
    },
  },
);
const circular: Record<string, unknown> = {};
circular["self"] = circular;

const hostile: readonly (readonly [string, unknown])[] = [
  ["undefined", undefined],
  ["null", null],
  ["zero", 0],
  ["an empty string", ""],
  ["a symbol", Symbol("s")],
  ["a function", () => 1],
  ["a bigint", 1n],
  ["an object without a prototype", Object.create(null)],
  ["a circular object", circular],
  ["an error with a throwing getter", throwingGetter],
  ["a proxy that throws", hostileProxy],
  ["a frozen error", Object.freeze(new Error("frozen"))],
];

describe("any thrown value becomes text that can be stored", () => {
  test.each(hostile)("%s", (_, thrown) => {
    const stored = storedError(thrown);
    expect(typeof stored.message).toBe("string");
    expect(JSON.parse(JSON.stringify(stored))).toEqual(stored);
    expect(errorLine(stored)).not.toContain("\n");
    expect(typeof eventError(thrown).message).toBe("string");
    expect(attemptEventError(thrown)).toMatchObject(eventError(thrown));
  });
});

test.each<[Error, string]>([
  [new FailJob(), "FailJob"],
  [new TypeError(), "TypeError"],
  [Object.assign(new Error(""), { code: "ENOENT" }), "ENOENT"],
])("an error without a message is an error all the same: %s", (error, line) => {
  const stored = storedError(error);
  expect(stored).toMatchObject({ name: error.name, message: "" });
  expect(stored.stack).toContain("stored-error.test.ts");
  expect(errorLine(stored)).toBe(line);
});

test("an empty name is Error, and an empty code or stack is none", () => {
  const stored = storedError({ name: "", code: "", stack: "", message: "m" });
  expect(stored).toEqual({ name: "Error", code: null, stack: null, message: "m" });
});

test("NUL and lone surrogates, which PostgreSQL refuses, are replaced", () => {
  const { message, stack } = storedError(new Error("a\0b\ud800c"));
  expect(message).toBe("a\uFFFDb\uFFFDc");
  expect(stack).not.toContain("\0");
});

test("huge texts are cut", () => {
  const error = new Error("m".repeat(5_000_000));
  error.name = "N".repeat(5_000_000);
  error.stack = "s".repeat(5_000_000);
  expect(JSON.stringify(storedError(error)).length).toBeLessThan(10_000);
});

test("of a failed query the driver's error is kept, not the values that were bound", () => {
  const driverError = Object.assign(new Error("duplicate key value"), { code: "23505" });
  const drizzleError = Object.assign(new Error("Failed query: … params: secret-marker"), {
    query: "insert …",
    params: ["secret-marker"],
    cause: driverError,
  });
  expect(storedError(drizzleError)).toMatchObject({
    code: "23505",
    message: "duplicate key value",
  });
  expect(JSON.stringify(storedError(drizzleError))).not.toContain("secret-marker");
  expect(JSON.stringify(attemptEventError(drizzleError))).not.toContain("secret-marker");
});

test("an event tells where an attempt's error was made, and no more of its text than the message", () => {
  const error = new TypeError(`no foo ${"m".repeat(5_000)} secret-marker`);
  error.message = "redacted";
  const told = attemptEventError(error);
  expect(told).toMatchObject({ name: "TypeError", message: "redacted" });
  expect(told.stack).toMatch(/^\s+at .*stored-error\.test\.ts/);
  expect(JSON.stringify(told)).not.toContain("secret-marker");
  const refused = Object.assign(new Error('invalid input syntax: "secret-marker"'), {
    code: "22P02",
  });
  expect(attemptEventError(refused)).toEqual({
    name: "Error",
    code: "22P02",
    message: "invalid input syntax",
  });
});
