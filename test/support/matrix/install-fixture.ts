import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const projectFolder = fileURLToPath(new URL("../../..", import.meta.url));
const cacheFolder = join(projectFolder, "node_modules/.cache/drizzle-queue");

/**
 * Installs the package.json of a fixture with npm, once: a later call, also of
 * another process, finds what is there until the file changes.
 *
 * @param folder Relative to the project, such as `test/support/matrix/postgres-14`.
 * @returns The folder that holds a copy of package.json and its `node_modules`.
 */
export function installFixture(folder: string): string {
  const manifest = readFileSync(join(projectFolder, folder, "package.json"));
  const hash = createHash("sha256").update(manifest).digest("hex").slice(0, 12);
  const target = join(cacheFolder, `${basename(folder)}-${hash}`);
  if (existsSync(target)) return target;

  // Installed under another name and then renamed, so that nobody finds half of it.
  const unfinished = `${target}.${process.pid}`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  cpSync(join(projectFolder, folder, "package.json"), join(unfinished, "package.json"));
  npmInstall(unfinished);
  publish(unfinished, target);
  return target;
}

/** Runs `npm install` in a folder of its own, outside of this project's settings. */
export function npmInstall(folder: string, ...packages: string[]): void {
  const args = [
    "install",
    "--no-audit",
    "--no-fund",
    "--prefer-offline",
    "--ignore-scripts",
    ...packages,
  ];
  const install = spawnSync("npm", args, {
    cwd: folder,
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  if (install.status !== 0) {
    throw new Error(`npm install failed in ${folder}: ${install.stderr || String(install.error)}`);
  }
}

function publish(unfinished: string, target: string): void {
  try {
    renameSync(unfinished, target);
  } catch (error) {
    // Another process was first: its copy is as good as ours.
    if (!existsSync(target)) throw error;
    rmSync(unfinished, { recursive: true, force: true });
  }
}
