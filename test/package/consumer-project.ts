import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { installFixture, npmInstall } from "../support/matrix/install-fixture.js";

const projectFolder = fileURLToPath(new URL("../..", import.meta.url));
const consumerFolder = fileURLToPath(new URL("consumer", import.meta.url));

/** The compilers that an app may have, newest last. */
export const COMPILERS = ["5.9", "6.0", "7.0"] as const;

/** What a program wrote and how it ended. */
export interface ProgramRun {
  readonly code: number | null;
  readonly output: string;
}

/** An app in a folder of its own that has installed the packed package. */
export interface ConsumerProject {
  readonly folder: string;
  compile(compiler: (typeof COMPILERS)[number], ...options: string[]): ProgramRun;
  node(args: readonly string[], env?: Readonly<Record<string, string>>): ProgramRun;
  remove(): void;
}

/** Builds and packs the package as it would be published. */
export function packTarball(): string {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "drizzle-queue-package-"));
  const packed = run(
    "npm",
    ["pack", "--json", "--silent", "--pack-destination", folder],
    projectFolder,
  );
  const start = packed.output.indexOf("[");
  if (packed.code !== 0 || start < 0) throw new Error(`npm pack failed:\n${packed.output}`);
  const [tarball] = JSON.parse(packed.output.slice(start)) as { filename: string }[];
  if (tarball === undefined) throw new Error(`npm pack made no tarball:\n${packed.output}`);
  return join(folder, tarball.filename);
}

/**
 * Installs the tarball in an app.
 *
 * @param app The folder under test/package whose package.json says which Drizzle the app has.
 */
export function createConsumer(app: string, tarball: string): ConsumerProject {
  const compilers = installFixture("test/package/compilers");
  const folder = mkdtempSync(join(realpathSync(tmpdir()), `drizzle-queue-${app}-`));
  cpSync(installFixture(`test/package/${app}`), folder, { recursive: true });
  cpSync(consumerFolder, folder, { recursive: true });
  npmInstall(folder, tarball);
  return {
    folder,
    compile: (compiler, ...options) => {
      const tsc = join(compilers, "node_modules", `typescript-${compiler}`, "bin/tsc");
      return run(process.execPath, [tsc, "-p", "tsconfig.json", ...options], folder);
    },
    node: (args, env) => run(process.execPath, args, folder, env),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): ProgramRun {
  const ended = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    env: { ...process.env, ...env },
    shell: process.platform === "win32",
  });
  return { code: ended.status, output: `${ended.stdout}${ended.stderr}` };
}
