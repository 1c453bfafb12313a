/**
 * Writes integers as a PostgreSQL array literal, for `$1::text::bigint[]`.
 *
 * A literal in text is the one form of a list that every driver passes on
 * unchanged; their own array encodings differ.
 */
export function integerList(numbers: readonly (number | null)[]): string {
  return `{${numbers.map((number) => number ?? "null").join(",")}}`;
}

/** Writes texts as a PostgreSQL array literal, for `$1::text::text[]`. */
export function textList(texts: readonly (string | null)[]): string {
  return `{${texts.map((text) => (text === null ? "null" : `"${text.replaceAll(/["\\]/g, "\\$&")}"`)).join(",")}}`;
}
