import { writeFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { FENCE_MUTANTS, OTHER_MUTANTS } from "./mutants.js";
import { type MutantResult, mutantReport, tryMutant } from "./try-mutants.js";

const usage = `npm run crash-mutants -- [--only text] [--seeds n] [--out file]
  --only   the mutants whose name holds this text
  --seeds  how many seeds are tried until a mutant is seen (3)
  --out    write the table to this file too, in Markdown`;

/** Tries the harness itself. */
const { values } = parseArgs({
  options: {
    only: { type: "string", default: "" },
    seeds: { type: "string", default: "3" },
    out: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

async function main(): Promise<number> {
  if (values.help) {
    process.stdout.write(`${usage}\n`);
    return 0;
  }
  const mutants = [...FENCE_MUTANTS, ...OTHER_MUTANTS].filter(({ name }) =>
    name.includes(values.only),
  );
  const results: MutantResult[] = [];
  for (const mutant of mutants) {
    const result = await tryMutant(mutant, Number(values.seeds));
    results.push(result);
    const seen = result.seed === null ? "NOT SEEN" : `seed ${result.seed}, ${result.example}`;
    process.stderr.write(
      `${results.length}/${mutants.length} ${mutant.name}: ${seen} (${result.seconds.toFixed(0)} s)\n`,
    );
    // An hour's work is not lost when somebody ends it.
    if (values.out !== undefined) writeFileSync(values.out, mutantReport(results));
  }
  process.stdout.write(`${mutantReport(results)}\n`);
  return results.some(({ seed }) => seed === null) ? 1 : 0;
}

process.exit(await main());
