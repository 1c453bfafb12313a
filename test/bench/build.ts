import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const outdir = join(here, "dist");

/**
 * Compiles what runs in the measured processes: a loader that translates
 * TypeScript on the fly would be measured with it.
 *
 * @returns The folder that holds the compiled files under the same names.
 */
export async function buildContenders(): Promise<string> {
  const contenders = readdirSync(join(here, "contenders")).map((file) => `contenders/${file}`);
  await build({
    absWorkingDir: here,
    entryPoints: ["bench-process.ts", "enqueue-process.ts", ...contenders],
    outdir,
    bundle: true,
    splitting: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    tsconfig: "../../tsconfig.json",
    sourcemap: true,
  });
  return outdir;
}
