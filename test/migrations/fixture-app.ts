import { execFile } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { installFixture } from "../support/matrix/install-fixture.js";

const projectFolder = fileURLToPath(new URL("../..", import.meta.url));
const appFolder = fileURLToPath(new URL("fixtures/app", import.meta.url));

/** The Drizzle majors that an app may have. */
export const DRIZZLE_MAJORS = ["0.45", "1.0"] as const;

/** One of the Drizzle majors that an app may have. */
export type DrizzleMajor = (typeof DRIZZLE_MAJORS)[number];

/** What `drizzle-kit` says when schema and migrations, or schema and database, agree. */
export const NOTHING_TO_GENERATE = "No schema changes, nothing to migrate";
export const NOTHING_TO_PUSH = "No changes detected";

/** An app in a folder of its own that has the built schema door as the package `drizzle-queue`. */
export interface FixtureApp {
  readonly folder: string;
  /** Runs drizzle-kit and returns what it wrote; not its exit code, since it is 0 for many failures. */
  kit(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<string>;
  /** Runs a TypeScript file of the app and returns what it wrote. */
  run(file: string, env: Readonly<Record<string, string>>): Promise<string>;
  /** The text of each migration's SQL, in order, by its path below the folder `drizzle`. */
  migrations(): Map<string, string>;
  remove(): void;
}

/** The built package, made once for all apps of a test file. */
let schemaDoor: string | undefined;

/** Deletes what the apps of a test file had in common. */
export function removeSchemaDoor(): void {
  if (schemaDoor !== undefined) rmSync(schemaDoor, { recursive: true, force: true });
  schemaDoor = undefined;
}

/** Makes the app for one Drizzle major; each call makes another one. */
export function createFixtureApp(major: DrizzleMajor): FixtureApp {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "drizzle-queue-app-"));
  cpSync(appFolder, folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  const dependencies =
    major === "0.45" ? projectFolder : installFixture("test/support/matrix/drizzle-v1");
  linkDependencies(join(dependencies, "node_modules"), join(folder, "node_modules"));
  cpSync((schemaDoor ??= buildSchemaDoor()), join(folder, "node_modules/drizzle-queue"), {
    recursive: true,
  });
  const tsx = join(projectFolder, "node_modules/tsx/dist/cli.mjs");
  return {
    folder,
    kit: (args, env) => runNode(["node_modules/drizzle-kit/bin.cjs", ...args], folder, env),
    run: (file, env) => runNode([tsx, file], folder, env),
    migrations: () => readMigrations(join(folder, "drizzle")),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Links each package by itself: the app's own package must lie beside them, not inside the source. */
function linkDependencies(from: string, to: string): void {
  mkdirSync(to);
  for (const name of readdirSync(from)) {
    if (name !== "drizzle-queue" && !name.startsWith("."))
      symlinkSync(join(from, name), join(to, name), "junction");
  }
}

/** Compiles the schema room alone, with the settings of the build, against this project's Drizzle. */
function buildSchemaDoor(): string {
  const target = mkdtempSync(join(realpathSync(tmpdir()), "drizzle-queue-schema-"));
  const config = ts.getParsedCommandLineOfConfigFile(
    join(projectFolder, "tsconfig.build.json"),
    { outDir: join(target, "dist") },
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: fail },
  );
  if (config === undefined) throw new Error("tsconfig.build.json cannot be read.");
  const program = ts.createProgram([join(projectFolder, "src/schema/index.ts")], config.options);
  const { diagnostics } = program.emit();
  [...ts.getPreEmitDiagnostics(program), ...diagnostics].forEach(fail);
  const { name, version, type, exports } = JSON.parse(
    readFileSync(join(projectFolder, "package.json"), "utf8"),
  );
  writeFileSync(join(target, "package.json"), JSON.stringify({ name, version, type, exports }));
  return target;
}

function fail(diagnostic: ts.Diagnostic): never {
  throw new Error(ts.formatDiagnostic(diagnostic, formatHost));
}

const formatHost: ts.FormatDiagnosticsHost = {
  getCanonicalFileName: (name) => name,
  getCurrentDirectory: () => projectFolder,
  getNewLine: () => "\n",
};

/**
 * Compiles files of the app and returns the errors in the app and in `drizzle-queue`.
 *
 * Only their files are asked for errors: Drizzle's own declarations name drivers
 * that are not installed, which is an error of theirs when `skipLibCheck` is off.
 */
export function typeErrors(
  { folder }: FixtureApp,
  files: readonly string[],
  options: { readonly skipLibCheck: boolean },
): string[] {
  const program = ts.createProgram(
    files.map((file) => join(folder, file)),
    {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.NodeNext,
      types: ["node"],
      typeRoots: [join(folder, "node_modules/@types")],
      strict: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
      ...options,
    },
  );
  return program
    .getSourceFiles()
    .filter(({ fileName }) => fileName.startsWith(folder))
    .flatMap((file) => [
      ...program.getSyntacticDiagnostics(file),
      ...program.getSemanticDiagnostics(file),
    ])
    .concat(program.getOptionsDiagnostics(), program.getGlobalDiagnostics())
    .map((diagnostic) => ts.formatDiagnostic(diagnostic, formatHost));
}

function readMigrations(folder: string): Map<string, string> {
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".sql"))
    .sort();
  return new Map(paths.map((path) => [path, readFileSync(join(folder, path), "utf8")]));
}

/** Runs Node and returns what it wrote, whatever its exit code. */
export function runNode(
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      args,
      { cwd, env: { ...process.env, NO_COLOR: "1", ...env }, encoding: "utf8" },
      (_failure, stdout, stderr) => resolve(stdout + stderr),
    );
    // A question on the terminal would be waited for; with its input closed it is an error.
    child.stdin?.end();
  });
}
