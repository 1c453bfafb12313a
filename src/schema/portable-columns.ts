import {
  type bigint,
  customType,
  type integer,
  type jsonb,
  type smallint,
  type text,
  timestamp,
} from "drizzle-orm/pg-core";

// An exported table's inferred type would spell out the inner types of the one
// drizzle-orm that this package was built with. The aliases below are computed
// from the drizzle-orm of whoever reads the declarations, so one build is exact
// for every supported major.

declare const textColumn: ReturnType<typeof text>;
declare const jsonbColumn: ReturnType<typeof jsonb>;

/** A `text` column whose values are `T`. */
export type Text<T extends string = string> = ReturnType<typeof textColumn.$type<T>>;

/** A `text[]` column: one major marks the column with its dimensions, the other wraps it. */
export type TextList = (typeof textColumn)["array"] extends (dimensions: "[]") => unknown
  ? Text & { readonly _: { readonly dimensions: 1 } }
  : ReturnType<(typeof textColumn)["array"]>;

/** A `jsonb` column whose values are `T`. */
export type Json<T = unknown> = ReturnType<typeof jsonbColumn.$type<T>>;

/** A `timestamptz` column, read as a `Date`. */
export type Instant = ReturnType<typeof timestamp<"date">>;

/** A `bigint` column, read as a number: exact up to 2^53, which no identity here reaches. */
export type BigInt53 = ReturnType<typeof bigint<"number">>;

/** An `integer` column. */
export type Int = ReturnType<typeof integer>;

/** A `smallint` column. */
export type SmallInt = ReturnType<typeof smallint>;

/** A `bytea` column. */
export type Bytes = ReturnType<ReturnType<typeof customType<{ data: Uint8Array }>>>;

/** The column made `not null`. */
export type NotNull<B extends { notNull: (...args: never) => unknown }> = ReturnType<B["notNull"]>;

/** The column with a default, optional on insert. */
export type HasDefault<B extends { default: (...args: never) => unknown }> = ReturnType<
  B["default"]
>;

/** The column as the primary key. */
export type PrimaryKey<B extends { primaryKey: (...args: never) => unknown }> = ReturnType<
  B["primaryKey"]
>;

/** The column as an identity that PostgreSQL always generates, absent on insert. */
export type Identity<B extends { generatedAlwaysAsIdentity: (...args: never) => unknown }> =
  ReturnType<B["generatedAlwaysAsIdentity"]>;

/**
 * Makes a `timestamptz` column.
 *
 * @internal Its inferred type is of one major, so it must not reach the declarations.
 */
export const instant = <Name extends string>(name: Name) =>
  timestamp(name, { withTimezone: true, mode: "date" });

/**
 * Makes a `bytea` column; relational queries deliver bytes inside JSON, as hex text.
 *
 * @internal As above.
 */
export const bytes = customType<{ data: Uint8Array }>({
  dataType: () => "bytea",
  fromDriver: (value) => (typeof value === "string" ? fromHex(value) : (value as Uint8Array)),
});

/** Reads PostgreSQL's text form of bytes: `\x` and two digits for each. */
function fromHex(text: string): Uint8Array {
  return Uint8Array.from(text.slice(2).match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
