import fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";
import { isQueueError } from "../../src/errors.js";
import { defineJob } from "../../src/registry/define-job.js";
import { parsePayload, parseStored } from "../../src/registry/parse-payload.js";
import { jsonTree, storable } from "../support/json-tree.js";

const LIMIT = 100_000;
const anything = defineJob({ payload: z.unknown() });

/** What is stored of a payload, or null when it is refused by name. */
function storedOf(payload: unknown): string | null {
  try {
    return parsePayload("report", anything, payload, LIMIT).stored;
  } catch (error) {
    if (isQueueError(error, "INVALID_PAYLOAD")) return null;
    throw error;
  }
}

test("a handler gets what was enqueued, whatever JSON it is", () => {
  fc.assert(
    fc.property(jsonTree, (payload) => {
      const { stored, output } = parsePayload("report", anything, payload, LIMIT);
      expect(stored).toBe(JSON.stringify(payload));
      expect(output).toEqual(payload);
      expect(parseStored(anything, JSON.parse(stored))).toEqual({ ok: true, output: payload });
    }),
    { numRuns: 500 },
  );
});

test("through a schema, the worker sees what the enqueuer saw", () => {
  const definition = defineJob({
    payload: z.object({
      text: z.string(),
      at: z.coerce.date().optional(),
      list: z.array(z.union([z.number(), z.string(), z.null()])).default([1]),
      tree: z.unknown().optional(),
    }),
  });
  const payloads = fc.record(
    {
      text: storable,
      at: fc.date({ noInvalidDate: true }),
      list: fc.array(fc.oneof(fc.maxSafeInteger(), storable, fc.constant(null)), { maxLength: 5 }),
      tree: jsonTree,
      unknown: jsonTree,
    },
    { requiredKeys: ["text"] },
  );
  fc.assert(
    fc.property(payloads, (payload) => {
      const { stored, output } = parsePayload("report", definition, payload, LIMIT);
      expect(parseStored(definition, JSON.parse(stored))).toEqual({ ok: true, output });
      expect(output).toMatchObject({ text: payload.text });
    }),
    { numRuns: 300 },
  );
});

test("anything else is refused by name, or stored just as JSON would write it", () => {
  const values = fc.anything({
    withBigInt: true,
    withBoxedValues: true,
    withDate: true,
    withMap: true,
    withNullPrototype: true,
    withObjectString: true,
    withSet: true,
    withSparseArray: true,
    withTypedArray: true,
  });
  let accepted = 0;
  let refused = 0;
  fc.assert(
    fc.property(values, (payload) => {
      const stored = storedOf(payload);
      const isRefused = stored === null;
      if (isRefused) refused += 1;
      else accepted += 1;
      expect(stored).toBe(isRefused ? null : (JSON.stringify(payload) ?? "null"));
    }),
    { numRuns: 1_000 },
  );
  expect(Math.min(accepted, refused)).toBeGreaterThan(20);
});

test("text that jsonb cannot hold is refused wherever it stands", () => {
  const bad = fc
    .tuple(
      storable,
      fc.constantFrom("\0", "\ud800", "\udfff"),
      fc.string({ unit: "grapheme-ascii" }),
    )
    .map((parts) => parts.join(""));
  const places = fc.constantFrom<(text: string) => unknown>(
    (text) => text,
    (text) => [1, [text]],
    (text) => ({ a: { b: text } }),
    (text) => ({ a: { [text]: 1 } }),
  );
  fc.assert(
    fc.property(bad, places, (text, place) => {
      expect(storedOf(place(text))).toBeNull();
    }),
    { numRuns: 200 },
  );
});

test("a payload that refuses to be read is refused, with its error as the cause", () => {
  const traps = fc.constantFrom("get", "ownKeys", "getOwnPropertyDescriptor" as const);
  fc.assert(
    fc.property(traps, fc.string(), (trap, message) => {
      const error = new Error(message);
      const refuse = (): never => {
        throw error;
      };
      const payload = { a: new Proxy({ b: 1 }, { [trap]: refuse }) };
      expect(() => parsePayload("report", anything, payload, LIMIT)).toThrow(
        expect.objectContaining({ code: "INVALID_PAYLOAD", cause: error }),
      );
    }),
  );
});
