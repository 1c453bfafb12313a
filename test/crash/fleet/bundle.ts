import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";

const projectFolder = fileURLToPath(new URL("../../..", import.meta.url));
const entry = fileURLToPath(new URL("../programs/fleet-program.ts", import.meta.url));

/** The bundle is ESM, and node-postgres is not: it wants a `require`. */
const banner = `import { createRequire as bundleRequire } from "node:module"; const require = bundleRequire(import.meta.url);`;

/**
 * Bundles the fleet's program with the library's source in it: a process then
 * starts in a tenth of a second instead of one.
 *
 * @param plugins Changes that a mutant makes to the source on its way in.
 * @returns The bundle's path.
 */
export const bundleFleet = (folder: string, plugins: Plugin[] = []): Promise<string> =>
  bundle(entry, join(folder, "fleet.mjs"), plugins);

/** Bundles a program that imports the library through its doors. */
export async function bundle(
  program: string,
  outfile: string,
  plugins: Plugin[] = [],
): Promise<string> {
  const source = (path: string): string => join(projectFolder, "src", path);
  await build({
    entryPoints: [program],
    outfile,
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    banner: { js: banner },
    sourcemap: false,
    logLevel: "error",
    alias: {
      "drizzle-queue": source("index.ts"),
      "drizzle-queue/worker": source("worker/index.ts"),
    },
    external: ["pg-native", "postgres", "@electric-sql/pglite"],
    plugins,
  });
  return outfile;
}
