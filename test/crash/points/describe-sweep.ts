import type { CrashPoint } from "./crash-point.js";
import type { PointResult } from "./run-point.js";

/** A table of a sweep: one line for each statement, one mark for each deed. */
export function describeSweep(results: readonly PointResult[]): string {
  const points = [...new Set(results.map(({ point }) => point))];
  const lines = points.map((point) => {
    const marks = results
      .filter((result) => result.point === point)
      .map((result) => `${result.deed} ${markOf(result)}`);
    return `  ${point.by.padEnd(8)} ${point.name.padEnd(40)} ${marks.join(", ")}`;
  });
  const red = results.filter(isRed).map(describeRed);
  return [...lines, ...red].join("\n");
}

/** Whether a run went wrong: something was violated, or the fault found no statement. */
export const isRed = ({ hasStruck, violations }: PointResult): boolean =>
  !hasStruck || violations.length > 0;

const markOf = (result: PointResult): string =>
  result.hasStruck ? (isRed(result) ? "RED" : "ok") : "NOT REACHED";

function describeRed({ point, deed, hasStruck, violations, folder }: PointResult): string {
  const what = hasStruck ? violations.slice(0, 5).join("\n      ") : "the statement was never sent";
  return `  RED ${point.name}, ${deed}:\n      ${what}${folder === undefined ? "" : `\n      evidence in ${folder}`}`;
}

/** Statements that were sent in a sweep and that none of its points is about. */
export function unsweptStatements(
  results: readonly PointResult[],
  points: readonly CrashPoint[],
): string[] {
  const sent = new Set(results.flatMap(({ statements }) => statements));
  return [...sent].filter((statement) => {
    const [by, ...label] = statement.split(": ");
    // The twin of the other account's; and whatever befalls a rollback, the server rolls back.
    if (/^(rollback|update ledger\.accounts)/.test(label.join(": "))) return false;
    return !points.some((point) => point.by === by && point.statement.test(label.join(": ")));
  });
}
