import { rmSync } from "node:fs";
import { walkAll } from "../interleavings/walk-all.js";
import { judgedRun } from "../judge.js";
import { LEVELS, type Level } from "../plan/level.js";
import { makePlan } from "../plan/make-plan.js";
import { sourceState, table } from "../report/markdown.js";
import { type Mutant, mutation } from "./mutant.js";

/** Whether a mutant was seen, and what it took. */
export interface MutantResult {
  readonly mutant: Mutant;
  /** The first seed whose run violated what the mutant is expected to violate; null when none did. */
  readonly seed: number | null;
  readonly violated: readonly string[];
  /** A violation, for the reader. */
  readonly example: string;
  readonly seconds: number;
  /** In how many of how many orders of statements it was seen, if it concerns a statement. */
  readonly orders: string;
}

/** Runs level T0 with seeds from 1 on, until the mutant is seen. */
export async function tryMutant(mutant: Mutant, seeds: number): Promise<MutantResult> {
  const t0 = LEVELS["T0"];
  if (t0 === undefined) throw new Error("There is no level T0.");
  // A mutant that strands jobs is not waited for as long as a healthy fleet is.
  const level: Level = { ...t0, quietMs: 40_000 };
  const orders = await inOrders(mutant);
  const startedMs = performance.now();
  for (let seed = 1; seed <= seeds; seed += 1) {
    const { verdicts, folder } = await judgedRun({
      level,
      seed,
      plan: makePlan(level, seed),
      mutation: [mutation(mutant)],
    });
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
    const red = verdicts.filter(({ violations }) => violations.length > 0);
    const expected = red.find(({ id }) => mutant.expects.includes(id));
    if (expected === undefined) continue;
    return {
      mutant,
      seed,
      violated: red.map(({ id, violations }) => `${id} ×${violations.length}`),
      example: `${expected.id}: ${expected.violations[0]}`,
      seconds: (performance.now() - startedMs) / 1_000,
      orders,
    };
  }
  const seconds = (performance.now() - startedMs) / 1_000;
  return { mutant, seed: null, violated: [], example: "", seconds, orders };
}

/** The orders of statements are walked without a worker: a mutant of one cannot show there. */
async function inOrders(mutant: Mutant): Promise<string> {
  if (!mutant.changes.some(([file]) => file.startsWith("queries/"))) return "–";
  const { orders, violations } = await walkAll({
    randomOrders: 30,
    mutation: [mutation(mutant)],
  });
  return `${violations.length} of ${orders}`;
}

/** The results as a section of docs/crash-report.md. */
export function mutantReport(results: readonly MutantResult[]): string {
  const rows = results.map(({ mutant, seed, violated, example, seconds, orders }) => [
    mutant.name,
    seed === null ? "**not seen**" : String(seed),
    seconds.toFixed(0),
    orders,
    violated.join(", "),
    example.slice(0, 120),
  ]);
  const seen = results.filter(({ seed }) => seed !== null).length;
  return [
    `## Seeded faults: ${seen} of ${results.length} seen at level T0`,
    `\`npm run crash-mutants\`, source ${sourceState()}`,
    table(
      [
        "fault",
        "first seed",
        "seconds",
        "orders of statements that show it",
        "violated",
        "for instance",
      ],
      rows,
    ),
    "",
  ].join("\n\n");
}
