import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { judgedRun } from "./judge.js";
import type { FaultPlan } from "./plan/fault.js";
import { LEVELS } from "./plan/level.js";
import { makePlan } from "./plan/make-plan.js";
import { createProgressLine } from "./report/progress-line.js";

const usage = `npm run crash-test -- [--level T0|T1|T2|throughput] [--seed n] [--plan file] [--only kind] [--out file] [--keep]
  --level  how big the run is (T0)
  --seed   which plan of faults and jobs (1)
  --plan   a plan.json that an earlier run has left, instead of making one
  --only   leave out faults of all other kinds
  --out    write the report to this file too, in Markdown
  --keep   keep the evidence of a green run too`;

const { values } = parseArgs({
  options: {
    level: { type: "string", default: "T0" },
    seed: { type: "string", default: "1" },
    plan: { type: "string" },
    only: { type: "string" },
    out: { type: "string" },
    keep: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const say = (text: string): void => void process.stdout.write(`${text}\n`);

async function main(): Promise<number> {
  const level = LEVELS[values.level];
  const seed = Number(values.seed);
  if (values.help || level === undefined || !Number.isSafeInteger(seed)) {
    say(usage);
    return values.help ? 0 : 2;
  }
  const whole =
    values.plan === undefined
      ? makePlan(level, seed)
      : (JSON.parse(readFileSync(values.plan, "utf8")) as FaultPlan);
  const faults = whole.faults.filter(
    ({ action }) => values.only === undefined || action.kind === values.only,
  );
  const plan = { ...whole, faults };
  say(`Crash test ${level.name}, seed ${seed}: ${level.jobs} jobs, ${faults.length} faults.`);
  const line = createProgressLine();
  const { report, markdown, isGreen, folder } = await judgedRun(
    { level, seed, plan, onProgress: line.show },
    values.keep,
  );
  line.end();
  say(report);
  if (values.out !== undefined) writeFileSync(values.out, markdown);
  say(isGreen ? "GREEN: every invariant holds." : "RED.");
  if (folder !== undefined) say(`The evidence is in ${folder}`);
  return isGreen ? 0 : 1;
}

// Not by the exit code alone: Node 20 was seen to spin for ever over its own last handles.
process.exit(await main());
