import { readFile } from "node:fs/promises";
import type { Plugin } from "esbuild";

/** A fault of the library that the harness must be able to see. */
export interface Mutant {
  readonly name: string;
  /** What it replaces in which file below src/, wherever it stands there. */
  readonly changes: readonly Change[];
  /** The invariants one of which must be violated; any other may be besides. */
  readonly expects: readonly string[];
}

/** One text for another. */
export type Change = readonly [file: string, from: string, to: string];

/**
 * Changes the library's source on its way into the fleet's bundle; the files stay as they are.
 *
 * @throws When the text to replace is not there: the mutant is to be rewritten, or it would prove nothing.
 */
export function mutation({ name, changes }: Mutant): Plugin {
  return {
    name: `mutant: ${name}`,
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        const own = changes.filter(([file]) => path.endsWith(`/src/${file}`));
        if (own.length === 0) return undefined;
        let contents = await readFile(path, "utf8");
        for (const [file, from, to] of own) {
          if (!contents.includes(from))
            throw new Error(`Mutant "${name}": src/${file} does not hold the text "${from}".`);
          contents = contents.replaceAll(from, to);
        }
        return { contents, loader: "ts" };
      });
    },
  };
}
