import { expect, test } from "vitest";
import { CRASH_POINTS, DEEDS } from "./points/crash-point.js";
import { describeSweep, isRed, unsweptStatements } from "./points/describe-sweep.js";
import { sweepPoints } from "./points/sweep.js";

/** One deed at each statement, another at the next; `npm run crash-points` commits all five at all of them. */
test("every invariant holds when a process or a connection ends at any of its statements", async () => {
  const planned = CRASH_POINTS.map((point, index) => ({
    point,
    deed: DEEDS[index % DEEDS.length] ?? "kill-after",
  }));
  const results = await sweepPoints(planned);
  expect(results.filter(isRed), describeSweep(results)).toEqual([]);
  expect(unsweptStatements(results, CRASH_POINTS), "statements without a point").toEqual([]);
});
