import fc from "fast-check";
import { expect, test } from "vitest";
import { eventError } from "../../../src/instrumentation/instrumentation.js";
import { errorLine, storedError } from "../../../src/worker/stored-error.js";

/** Any UTF-16 code units: NUL, halves of pairs, control characters. */
const text = fc.string({
  unit: fc
    .oneof(
      { weight: 3, arbitrary: fc.integer({ min: 32, max: 126 }) },
      { weight: 1, arbitrary: fc.constantFrom(0, 10, 13, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xffff) },
    )
    .map((unit) => String.fromCharCode(unit)),
  maxLength: 40,
});
const longText = fc.tuple(text, fc.integer({ min: 1, max: 2_000 })).map(([t, n]) => t.repeat(n));

const plain = fc.anything({
  key: text,
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

const FIELDS = [
  "name",
  "message",
  "code",
  "stack",
  "cause",
  "query",
  "params",
  "toString",
] as const;

/** A property of an error: of its right type or of another, or one that refuses to be read. */
const property: fc.Arbitrary<PropertyDescriptor> = fc.oneof(
  { weight: 3, arbitrary: longText.map((value) => ({ value })) },
  { weight: 1, arbitrary: plain.map((value) => ({ value })) },
  { weight: 1, arbitrary: plain.map((thrown) => ({ get: () => refuse(thrown) })) },
);

function refuse(thrown: unknown): never {
  // oxlint-disable-next-line typescript/only-throw-error -- That it is no error is the case.
  throw thrown;
}

/** Made only when it is thrown: fast-check looks at its values, which these do not bear. */
type Throwable = () => unknown;

const errors: fc.Arbitrary<Throwable> = fc
  .tuple(
    fc.constantFrom(
      () => new Error("first"),
      () => new AggregateError([new Error("one"), null], "many"),
      () => Object.create(null) as object,
      () => Object.freeze(new TypeError("frozen")),
    ),
    fc.uniqueArray(fc.tuple(fc.constantFrom(...FIELDS), property), { selector: ([name]) => name }),
  )
  .map(([make, properties]) => () => {
    const error = make();
    // The stack first: V8 writes it when it is first touched, and reads the other fields for it.
    const inOrder = properties.toSorted(
      ([a], [b]) => Number(b === "stack") - Number(a === "stack"),
    );
    if (Object.isExtensible(error)) Object.defineProperties(error, Object.fromEntries(inOrder));
    return error;
  });

/** Looks like an error until it is touched, in as many ways as there are traps. */
const proxies: fc.Arbitrary<Throwable> = fc
  .uniqueArray(
    fc.constantFrom("get", "has", "ownKeys", "getPrototypeOf", "getOwnPropertyDescriptor"),
  )
  .map(
    (traps) => () =>
      new Proxy(new Error("behind"), Object.fromEntries(traps.map((trap) => [trap, refuse]))),
  );

const revoked = fc.constant((): unknown => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
});

const thrown: fc.Arbitrary<Throwable> = fc.oneof(
  plain.map((value) => () => value),
  longText.map((value) => () => value),
  errors,
  errors,
  proxies,
  revoked,
);

/** NUL and halves of pairs are what PostgreSQL refuses, in text as in jsonb. */
const isStorable = (text: string | null): boolean =>
  text === null || (text.isWellFormed() && !text.includes("\0"));

test("whatever is thrown becomes a record of bounded length that jsonb takes", () => {
  fc.assert(
    fc.property(thrown, (make) => {
      const stored = storedError(make());
      const json = JSON.stringify(stored);
      expect(Object.values(stored).every(isStorable)).toBe(true);
      expect(JSON.parse(json)).toEqual(stored);
      expect(Object.keys(stored)).toEqual(["code", "name", "message", "stack"]);
      expect(stored.code?.length ?? 0).toBeLessThanOrEqual(100);
      expect(stored.name.length).toBeLessThanOrEqual(100);
      expect(stored.message.length).toBeLessThanOrEqual(2_000);
      expect(stored.stack?.length ?? 0).toBeLessThanOrEqual(4_000);
    }),
    { numRuns: 1_000 },
  );
});

test("its line for lists is one line, bounded, and can be stored as text", () => {
  fc.assert(
    fc.property(thrown, (make) => {
      const line = errorLine(storedError(make()));
      expect(line.length).toBeLessThanOrEqual(500);
      expect(line).not.toContain("\n");
      expect(isStorable(line)).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test("events describe it in bounded text too", () => {
  fc.assert(
    fc.property(thrown, (make) => {
      const { name, message, code = "" } = eventError(make());
      expect(message.length).toBeLessThanOrEqual(500);
      expect(name.length).toBeLessThanOrEqual(500);
      expect(code.length).toBeLessThanOrEqual(500);
    }),
    { numRuns: 500 },
  );
});
