import process from "node:process";
import { CRASH_POINTS, DEEDS } from "./crash-point.js";
import { describeSweep, isRed, unsweptStatements } from "./describe-sweep.js";
import { sweepPoints } from "./sweep.js";

/** Commits every deed at every statement: `npm run crash-points -- [part of a point's name]`. */
const [only = ""] = process.argv.slice(2);
const say = (text: string): void => void process.stdout.write(`${text}\n`);

const planned = CRASH_POINTS.filter(({ name }) => name.includes(only)).flatMap((point) =>
  DEEDS.map((deed) => ({ point, deed })),
);
let count = 0;
const results = await sweepPoints(planned, ({ point, deed, seconds, violations, hasStruck }) => {
  count += 1;
  const mark = !hasStruck ? "not reached" : violations.length === 0 ? "ok" : "RED";
  process.stderr.write(
    `${count}/${planned.length} ${point.name}, ${deed}: ${mark} (${seconds.toFixed(1)} s)\n`,
  );
});
say(describeSweep(results));
const unswept = only === "" ? unsweptStatements(results, CRASH_POINTS) : [];
if (unswept.length > 0) say(`Statements without a point:\n  ${unswept.join("\n  ")}`);
process.exitCode = results.some(isRed) || unswept.length > 0 ? 1 : 0;
