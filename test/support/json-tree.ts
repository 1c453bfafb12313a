import fc from "fast-check";

/** Keys that mean something to JavaScript, beside all others. */
const key = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.constantFrom("__proto__", "constructor", "toString", "length", ""),
);

/** Text without NUL, which jsonb does not take. */
export const storable = fc.string({ unit: "binary" }).map((text) => text.replaceAll("\0", " "));

/** Whatever JSON can hold and jsonb can store. */
export const { tree: jsonTree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.oneof(
      storable,
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => (Object.is(n, -0) ? 0 : n)),
      fc.maxSafeInteger(),
      fc.boolean(),
      fc.constant(null),
    ),
    fc.array(tie("tree"), { maxLength: 4 }),
    fc.array(fc.tuple(key, tie("tree")), { maxLength: 4 }).map(fromEntries),
  ),
}));

/** Unlike `Object.fromEntries`, for any key of ours. */
function fromEntries(entries: readonly (readonly [string, unknown])[]): object {
  const object = {};
  for (const [name, value] of entries)
    Object.defineProperty(object, name.replaceAll("\0", " "), {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  return object;
}
