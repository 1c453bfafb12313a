import { expect, test } from "vitest";
import { countOurs, unfencedWrites, unqualifiedNames } from "./gates/sql-gates.js";
import { judgedRun } from "./judge.js";
import { LEVELS } from "./plan/level.js";
import { makePlan } from "./plan/make-plan.js";

/** `npm run crash-test -- --level T1 --seed 7` runs larger ones, and others. */
const SEED = 1;

test("every invariant holds while processes, connections and the server break (T0)", async () => {
  const level = LEVELS["T0"];
  if (level === undefined) throw new Error("There is no level T0.");
  const plan = makePlan(level, SEED);
  const { isGreen, report, folder, verdicts, statements } = await judgedRun({
    level,
    seed: SEED,
    plan,
  });
  expect(isGreen, `${report}\nThe evidence is in ${folder}`).toBe(true);
  // A run in which nothing happened would prove nothing.
  for (const { id, checked } of verdicts) expect(checked, id).toBeGreaterThan(0);

  // What really went over the wire in that run.
  expect(countOurs(statements)).toBeGreaterThan(20);
  expect(unfencedWrites(statements)).toEqual([]);
  expect(unqualifiedNames(statements)).toEqual([]);
});
