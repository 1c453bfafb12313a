import type { Cell, Result } from "./benchmark.js";

/** Writes a table; figures as median with the spread of the rounds. */
export function resultTable({ columns, rows }: Result): string {
  return table(
    ["", ...columns],
    rows.map(({ label, cells }) => [label, ...cells.map(show)]),
    1,
  );
}

/** Writes a table whose columns from `numbersFrom` on are set to the right. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  numbersFrom = head.length,
): string {
  const rule = head.map((_, index) => (index < numbersFrom ? "---" : "---:"));
  return [head, rule, ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** Writes a figure as its median, and the spread where there were rounds. */
export function show(cell: Cell | undefined): string {
  if (cell === undefined) return "not measured";
  if (typeof cell === "string") return cell;
  // Not a number goes through JSON as null.
  const { median, lowest, highest, runs } = cell;
  if (runs.length === 1 || median === null || Number.isNaN(median)) return short(median);
  return `${short(median)} (${short(lowest)}–${short(highest)})`;
}

/** Three digits are what a measurement of this kind can bear. */
export function short(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en-US");
  if (Number.isInteger(value)) return String(value);
  return value.toPrecision(3);
}
