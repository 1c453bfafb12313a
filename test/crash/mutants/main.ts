import process from "node:process";
import { FENCE_MUTANTS, OTHER_MUTANTS } from "./mutants.js";
import { type MutantResult, mutantTable, tryMutant } from "./try-mutants.js";

/** Tries the harness itself: `npm run crash-mutants -- [part of a mutant's name] [seeds]`. */
const [only = "", seeds = "3"] = process.argv.slice(2);
const mutants = [...FENCE_MUTANTS, ...OTHER_MUTANTS].filter(({ name }) => name.includes(only));
const results: MutantResult[] = [];
for (const mutant of mutants) {
  const result = await tryMutant(mutant, Number(seeds));
  results.push(result);
  process.stderr.write(
    `${results.length}/${mutants.length} ${mutant.name}: ${result.seed === null ? "NOT SEEN" : `seed ${result.seed}, ${result.example}`} (${result.seconds.toFixed(0)} s)\n`,
  );
}
process.stdout.write(`${mutantTable(results)}\n`);
process.exitCode = results.some(({ seed }) => seed === null) ? 1 : 0;
