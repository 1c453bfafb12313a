import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const outdir = join(here, "dist");
const project = join(here, "../..");

/** Builds the library as it is published and puts it where the contenders find it, as in an app. */
function installLibrary(): void {
  const folder = join(outdir, "node_modules/drizzle-queue");
  mkdirSync(folder, { recursive: true });
  // A scope of its own: else the name would mean this checkout's source.
  writeFileSync(join(outdir, "package.json"), JSON.stringify({ type: "module", private: true }));
  cpSync(join(project, "package.json"), join(folder, "package.json"));
  const compiler = join(project, "node_modules/typescript/bin/tsc");
  const args = [compiler, "-p", "tsconfig.build.json", "--outDir", join(folder, "dist")];
  const done = spawnSync(process.execPath, args, { cwd: project, encoding: "utf8" });
  if (done.status !== 0) throw new Error(`The library does not build:\n${done.stdout}`);
}

/**
 * Compiles what runs in the measured processes: a loader that translates
 * TypeScript on the fly would be measured with it.
 *
 * @returns The folder that holds the compiled files under the same names.
 */
export async function buildContenders(): Promise<string> {
  installLibrary();
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
    // Without the paths of the project's own, which lead to its source.
    tsconfigRaw: {},
    sourcemap: true,
  });
  return outdir;
}
