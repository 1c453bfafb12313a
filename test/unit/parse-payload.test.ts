import { describe, expect, test } from "vitest";
import { z } from "zod";
import * as mini from "zod/mini";
import { QueueError } from "../../src/errors.js";
import { defineJob } from "../../src/registry/define-job.js";
import { parsePayload, parseResult, parseStored } from "../../src/registry/parse-payload.js";

const LIMIT = 1_000;
const anything = defineJob({ payload: z.unknown() });
const parse = (
  payload: unknown,
  definition: Parameters<typeof parsePayload>[1] = anything,
  limit = LIMIT,
) => parsePayload("report", definition, payload, limit);

const toDate = (text: string): Date => new Date(text);
const toIso = (date: Date): string => date.toISOString();
const toSet = (list: string[]): Set<string> => new Set(list);
const toArray = (set: Set<string>): string[] => [...set];
const entries = z.array(z.tuple([z.string(), z.string()]));
const maps = z.map(z.string(), z.string());
const mapCodec = z.codec(entries, maps, {
  decode: (list) => new Map(list),
  encode: (map) => [...map],
});
/** Codecs of which the way back gives less than the way in had. */
const firstOf = z.codec(entries, maps, {
  decode: (list) => new Map(list),
  encode: (map) => [...map].slice(0, 1),
});
const dayOf = z.codec(z.string(), z.date(), {
  decode: toDate,
  encode: (date) => toIso(date).slice(0, 10),
});
const lossy = z.codec(z.string(), z.number(), {
  decode: (text) => text.length,
  encode: (length) => `${length}`,
});
const url = z.codec(z.string(), z.instanceof(URL), {
  decode: (text) => new URL(text),
  encode: (address) => address.href,
});

function refusal(
  payload: unknown,
  definition?: Parameters<typeof parsePayload>[1],
  limit?: number,
): QueueError {
  try {
    parse(payload, definition, limit);
  } catch (error) {
    if (error instanceof QueueError) return error;
    throw error;
  }
  return expect.unreachable("it was accepted");
}

describe("what is stored", () => {
  test("is the input with its defaults filled in and unknown keys gone", () => {
    const definition = defineJob({
      payload: z.object({ id: z.string(), pages: z.number().default(3) }),
    });
    const parsed = parse({ id: "a", junk: 1 }, definition);
    expect(JSON.parse(parsed.stored)).toEqual({ id: "a", pages: 3 });
    expect(JSON.parse(parsed.input)).toEqual({ id: "a", junk: 1 });
    expect(parsed.output).toEqual({ id: "a", pages: 3 });
  });

  test("keeps a random default, so that every attempt sees the same", () => {
    const definition = defineJob({
      payload: z.object({ token: z.string().default(() => crypto.randomUUID()) }),
    });
    const parsed = parse({}, definition);
    expect(parseStored(definition, JSON.parse(parsed.stored))).toEqual({
      ok: true,
      output: parsed.output,
    });
  });

  test.each([
    ["a one-way transform", z.object({ at: z.string().transform((s) => s.length) }), { at: "abc" }],
    ["a transform that must not run twice", z.string().transform((s) => `${s}!`), "abc"],
    [
      "a codec",
      z.object({
        at: z.codec(z.iso.datetime(), z.date(), {
          decode: (s) => new Date(s),
          encode: (d) => d.toISOString(),
        }),
      }),
      { at: "2026-01-01T00:00:00.000Z" },
    ],
    ["a coerced date", z.object({ at: z.coerce.date() }), { at: "2026-01-01T00:00:00.000Z" }],
    ["a coerced bigint", z.object({ n: z.coerce.bigint() }), { n: "12" }],
    ["a stringbool", z.object({ yes: z.stringbool() }), { yes: "yes" }],
    [
      "a discriminated union",
      z.discriminatedUnion("t", [z.object({ t: z.literal("a"), n: z.number() })]),
      { t: "a", n: 1 },
    ],
    ["a record", z.record(z.string(), z.number()), { constructor: 1, toString: 2 }],
    ["zod/mini with a default", mini.object({ a: mini._default(mini.number(), 4) }), {}],
    ["an overwrite that must not run twice", z.string().overwrite((s) => `${s}!`), "abc"],
    [
      "an overwrite beside a default",
      z.object({ s: z.string().overwrite((s) => `${s}!`), n: z.number().default(1) }),
      { s: "abc" },
    ],
    ["a codec that loses a part", lossy, "abc"],
    [
      "a codec that loses a part of a Date",
      z.object({ at: dayOf }),
      { at: "2026-01-01T12:00:00Z" },
    ],
    [
      "a codec that loses an entry of a Map",
      z.object({ m: firstOf }),
      {
        m: [
          ["a", "1"],
          ["b", "2"],
        ],
      },
    ],
    ["a union that takes back its other member", z.union([z.string(), z.coerce.date()]), 0],
    [
      "an instance of a class",
      z.object({ url, n: z.number().default(1) }),
      { url: "https://a.b/c" },
    ],
  ])("gives the worker the same output again: %s", (_, schema, input) => {
    const definition = defineJob({ payload: schema as z.ZodType });
    const parsed = parse(input, definition);
    expect(parseStored(definition, JSON.parse(parsed.stored))).toEqual({
      ok: true,
      output: parsed.output,
    });
  });

  test.each([
    ["bigint", z.codec(z.string(), z.bigint(), { decode: BigInt, encode: String }), "12"],
    ["Date", z.codec(z.string(), z.date(), { decode: toDate, encode: toIso }), toIso(new Date(0))],
    ["Map", mapCodec, [["a", "1"]]],
    [
      "Set",
      z.codec(z.array(z.string()), z.set(z.string()), { decode: toSet, encode: toArray }),
      ["a"],
    ],
  ])("has its defaults and no unknown keys beside a codec of %s", (_, codec, value) => {
    const definition = defineJob({
      payload: z.object({ value: codec, n: z.number().default(1) }) as z.ZodType,
    });
    const parsed = parse({ value, junk: true }, definition);
    expect(JSON.parse(parsed.stored)).toEqual({ value, n: 1 });
  });

  test("of a void payload is null, and reads as undefined", () => {
    const definition = defineJob({ payload: z.void() });
    expect(parse(undefined, definition).stored).toBe("null");
    expect(parseStored(definition, null)).toEqual({ ok: true, output: undefined });
  });

  test("is data, also where keys look like code", () => {
    const hostile: unknown = JSON.parse(
      '{"__proto__":{"admin":true},"constructor":{"prototype":1},"a\\"b":1}',
    );
    const { stored, output } = parse(hostile);
    expect(stored).toBe('{"__proto__":{"admin":true},"constructor":{"prototype":1},"a\\"b":1}');
    expect(Object.hasOwn(output as object, "__proto__")).toBe(true);
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
  });

  test("keeps every character that can be stored", () => {
    const text = '🙂 \uffff \u0001 日本 "quoted" \\ \n';
    expect(JSON.parse(parse({ [text]: text }).stored)).toEqual({ [text]: text });
  });
});

describe("what is refused", () => {
  const circular: Record<string, unknown> = {};
  circular["self"] = { again: circular };
  const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);
  const wide = Array.from({ length: 60 }).reduce<unknown>((inner) => [inner, inner], 1);

  test.each<[string, unknown, (string | number)[], RegExp]>([
    ["NUL in a value", { a: ["x", "x\0y"] }, ["a", 1], /u0000/],
    ["NUL in a key", { a: { "k\0": 1 } }, ["a", "k\0"], /u0000/],
    ["a lone high surrogate", { a: "x\ud800" }, ["a"], /surrogate/],
    ["a lone low surrogate", { a: "\udc00x" }, ["a"], /surrogate/],
    ["a lone surrogate in a key", { "\ud83d": 1 }, ["\ud83d"], /surrogate/],
    ["a bigint", { n: [1n] }, ["n", 0], /bigint/],
    ["NaN", { n: Number.NaN }, ["n"], /NaN/],
    ["Infinity", { n: Number.POSITIVE_INFINITY }, ["n"], /Infinity/],
    ["a function", { f: () => 1 }, ["f"], /function/],
    ["a symbol", { s: Symbol("x") }, ["s"], /symbol/],
    ["a Map", { m: new Map([[1, 2]]) }, ["m"], /Map/],
    ["bytes", { b: new Uint8Array(2) }, ["b"], /Uint8Array/],
    ["an invalid Date", { d: new Date(Number.NaN) }, ["d"], /Date/],
    ["an Error", { e: new Error("x") }, ["e"], /Error/],
    ["undefined in an array", { a: [1, undefined] }, ["a", 1], /is undefined/],
    ["a hole in an array", { a: Object.assign([], { length: 1 }) }, ["a", 0], /is undefined/],
  ])("%s, with its path", (_, payload, path, message) => {
    const error = refusal(payload);
    expect(error.code).toBe("INVALID_PAYLOAD");
    expect(error.issues).toEqual([{ path, message: expect.stringMatching(message) }]);
  });

  test.each<[string, unknown, RegExp]>([
    ["a circle", circular, /nested deeper than 100/],
    ["101 levels", deep(101), /nested deeper than 100/],
    ["a small value that is huge as JSON", wide, /larger than 1000 bytes/],
    [
      "a getter that throws",
      Object.defineProperty({}, "x", {
        enumerable: true,
        get: () => {
          throw new Error("secret");
        },
      }),
      /cannot be read/,
    ],
  ])("%s", (_, payload, message) => {
    expect(refusal(payload).message).toMatch(message);
  });

  test("nothing that is 100 levels deep", () => {
    expect(JSON.parse(parse(deep(100)).stored)).toEqual(deep(100));
  });

  test("a payload over the limit, counted in bytes", () => {
    expect(parse("x".repeat(LIMIT - 2)).stored).toHaveLength(LIMIT);
    const tooLarge = ["x".repeat(LIMIT - 1), "ü".repeat(LIMIT / 2), Array(LIMIT).fill(1)];
    expect(new Set(tooLarge.map((payload) => refusal(payload).message))).toEqual(
      new Set([
        'Payload of job "report" is invalid: is larger than 1000 bytes as JSON (maxPayloadBytes); store it elsewhere and a reference here.',
      ]),
    );
  });

  test("what does not fit the schema, with every path and no value", () => {
    const definition = defineJob({
      payload: z.object({ id: z.uuid(), list: z.array(z.object({ n: z.number() })) }),
    });
    const error = refusal({ id: "top-secret", list: [{ n: 1 }, { n: "hush" }] }, definition);
    expect(error.issues.map(({ path }) => path)).toEqual([["id"], ["list", 1, "n"]]);
    expect(error.message).toMatch(/^Payload of job "report" is invalid: id: .*list\.1\.n: /);
    expect(JSON.stringify([error.message, error.issues, String(error.cause)])).not.toMatch(
      /top-secret|hush/,
    );
  });

  test("a Date where the schema wants one: JSON turns it into text", () => {
    const definition = defineJob({ payload: z.object({ at: z.date() }) as unknown as z.ZodType });
    expect(refusal({ at: new Date() }, definition).issues[0]?.path).toEqual(["at"]);
  });

  test.each([
    ["refinement", z.string().refine(async () => true)],
    ["transform", z.string().transform(async (s) => s)],
  ])("an asynchronous %s, as a fault of the schema", (_, schema) => {
    const error = refusal("x", defineJob({ payload: schema as z.ZodType }));
    expect(error.code).toBe("INVALID_OPTION");
    expect(error.message).toMatch(/asynchronous/);
  });

  test("a schema that throws, with its error as the cause", () => {
    const cause = new Error("thrown by the app");
    const schema = z.string().refine(() => {
      throw cause;
    });
    expect(refusal("x", defineJob({ payload: schema })).cause).toBe(cause);
  });
});

describe("parseStored", () => {
  test("tells paths and kinds of what no longer fits, and no values", () => {
    const definition = defineJob({ payload: z.object({ a: z.string(), b: z.enum(["x"]) }) });
    expect(parseStored(definition, { a: 5, b: "secret" })).toEqual({
      ok: false,
      issues: [
        { path: ["a"], message: "invalid_type" },
        { path: ["b"], message: "invalid_value" },
      ],
    });
  });

  test("does not throw where the schema does", () => {
    const schema = z.string().refine(() => {
      throw new Error("secret");
    });
    expect(parseStored(defineJob({ payload: schema }), "x")).toEqual({
      ok: false,
      issues: [{ path: [], message: "the schema threw an error" }],
    });
  });

  test("fills in a field that later got a default", () => {
    const definition = defineJob({
      payload: z.object({ a: z.string(), b: z.number().default(1) }),
    });
    expect(parseStored(definition, { a: "x" })).toEqual({ ok: true, output: { a: "x", b: 1 } });
  });
});

describe("parseResult", () => {
  test("gives null without a result schema", () => {
    expect(parseResult("report", anything, { some: "thing" }, LIMIT)).toBeNull();
  });

  test("gives the JSON of a result that fits, and refuses another", () => {
    const definition = defineJob({ payload: z.unknown(), result: z.object({ id: z.string() }) });
    expect(parseResult("report", definition, { id: "m", more: 1 }, LIMIT)).toBe('{"id":"m"}');
    expect(() => parseResult("report", definition, { id: 1 }, LIMIT)).toThrow(
      /^Result of job "report" is invalid: id/,
    );
    expect(() => parseResult("report", definition, undefined, LIMIT)).toThrow(QueueError);
  });

  test("stores what parses to the accepted result again, as for a payload", () => {
    const definition = defineJob({ payload: z.unknown(), result: z.object({ at: dayOf }) });
    const stored = parseResult("report", definition, { at: "2026-01-01T12:00:00Z" }, LIMIT);
    expect(stored).toBe('{"at":"2026-01-01T12:00:00Z"}');
  });
});
