import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { FENCE_MUTANTS, OTHER_MUTANTS } from "./mutants/mutants.js";

const source = (file: string): string =>
  readFileSync(fileURLToPath(new URL(`../../src/${file}`, import.meta.url)), "utf8");

/** `npm run crash-mutants` takes an hour; that it could run is seen here. */
test.each([...FENCE_MUTANTS, ...OTHER_MUTANTS])(
  "there is still what to replace: $name",
  (mutant) => {
    for (const [file, from, to] of mutant.changes) {
      expect(source(file)).toContain(from);
      expect(to).not.toBe(from);
    }
  },
);
