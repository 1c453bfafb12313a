import type { Value } from "./executor.js";

/**
 * Writes integers as a PostgreSQL array literal, for `$1::text::bigint[]`.
 *
 * A literal in text is the one form of a list that every driver passes on
 * unchanged; their own array encodings differ.
 */
export const integerList = (numbers: readonly number[]): string => `{${numbers.join(",")}}`;

/** Writes any values as one JSON text, for `jsonb_array_elements_text($1::text::jsonb)`. */
export const jsonList = (values: readonly Value[]): string => JSON.stringify(values);
