import { rmSync } from "node:fs";
import { expect, test } from "vitest";
import { judgedRun } from "./judge.js";
import { LEVELS, type Level } from "./plan/level.js";
import { makePlan } from "./plan/make-plan.js";

/** Short: what is wrong with this queue shows at once. */
function controlLevel(): Level {
  const t0 = LEVELS["T0"];
  if (t0 === undefined) throw new Error("There is no level T0.");
  return { ...t0, jobs: 500, chaosMs: 7_000, kills: 8, restarts: 1, quietMs: 2_000 };
}

/** A harness that never goes red proves nothing: this queue is wrong in the ways that it looks for. */
test("a naive queue goes red: effects double, who holds nothing any more writes, and idleness is dear", async () => {
  const level = controlLevel();
  const plan = makePlan(level, 1);
  const run = await judgedRun({ level, plan, seed: 1, contender: "naive" });
  if (run.folder !== undefined) rmSync(run.folder, { recursive: true, force: true });
  const violations = run.verdicts.flatMap((verdict) =>
    verdict.violations.map((violation) => `${verdict.id} ${violation}`),
  );
  const matches = (pattern: RegExp): number =>
    violations.filter((violation) => pattern.test(violation)).length;
  // Between an effect and its completion a process dies, and the next one does it again.
  expect(matches(/^I3 .* with [2-9] effects instead of 1/), run.report).toBeGreaterThan(0);
  expect(matches(/^I6 .* completed in another transaction/), run.report).toBeGreaterThan(0);
  // A job that outlives its lease is another's, and its former holder ends it all the same.
  expect(
    matches(/^F1 .* (held by \S+, was written by|after its lease had run out)/),
    run.report,
  ).toBeGreaterThan(0);
  // It counts what waits ten times a second, and each job leaves a listener behind.
  expect(matches(/^I15 \S+ asked the jobs table \d{2,} times/), run.report).toBeGreaterThan(0);
  expect(matches(/^I15 \S+ keeps \d{2,} of AbortSignal after/), run.report).toBeGreaterThan(0);
});
