import { type ChildProcess, spawn } from "node:child_process";
import {
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
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createEmptyDatabase, type TestDatabase } from "../support/database.js";
import { waitUntil } from "../support/wait-until.js";
import { fileNameOf } from "./compile.js";
import { codeBlocks, projectFolder, readPage } from "./pages.js";

const readme = readPage("README.md");
const [, quickStart = ""] = readme.text.split("\n## Quick start\n");
const blocks = codeBlocks({ path: readme.path, text: quickStart.split("\n## ")[0] ?? "" });

let folder: string;
let database: TestDatabase;
let worker: ChildProcess | undefined;

beforeAll(async () => {
  database = await createEmptyDatabase();
  folder = mkdtempSync(join(realpathSync(tmpdir()), "drizzle-queue-quick-start-"));
  linkDependencies();
  await buildPackage();
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  for (const { code } of blocks) {
    const name = fileNameOf(code);
    if (name !== undefined) writeFileSync(join(folder, name), code);
  }
});

afterAll(async () => {
  if (worker?.exitCode === null) worker.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
  await database.drop();
});

test("the quick start works, word for word", async () => {
  const commands = blocks
    .filter(({ language }) => language === "sh")
    .flatMap(({ code }) => code.split("\n"))
    .flatMap((line) => line.replace(/\s+#.*/, "").split(" && "))
    .filter((command) => /^(npx|node) /.test(command));
  expect(commands).toHaveLength(4);
  const last = commands.pop() ?? "";
  for (const command of commands) await finished(start(command));

  worker = start(last);
  const ended = finished(worker);
  const letters = () => database.pool.query("select body from letters").then(({ rows }) => rows);
  const done = () => database.pool.query("select from queue_jobs where status = 'done'");
  await waitUntil("the job is done", async () => (await done()).rowCount === 1, {
    timeoutMs: 30_000,
  });
  expect(await letters()).toEqual([{ body: "So good to have you!" }]);
  worker.kill("SIGTERM");
  const output = await ended;
  for (const event of ["job.claimed", "job.started", "job.done", "worker.stopped"]) {
    expect(output).toContain(event);
  }
});

/** Runs `node …` as it is, and `npx …` without npm between: an exit code is to be the program's own. */
function start(command: string): ChildProcess {
  const [runner, program = "", ...args] = command.split(" ");
  if (runner === "node") return run([program, ...args]);
  const manifest = JSON.parse(
    readFileSync(join(projectFolder, "node_modules", program, "package.json"), "utf8"),
  ) as { bin: string | Record<string, string> };
  const bin = typeof manifest.bin === "string" ? manifest.bin : (manifest.bin[program] ?? "");
  return run([join(folder, "node_modules", program, bin), ...args]);
}

const run = (args: readonly string[]): ChildProcess =>
  spawn(process.execPath, args, {
    cwd: folder,
    env: { ...process.env, NO_COLOR: "1", DATABASE_URL: database.url },
    stdio: ["ignore", "pipe", "pipe"],
  });

/** What a program wrote; it must have ended well. */
function finished(child: ChildProcess): Promise<string> {
  let output = "";
  child.stdout?.on("data", (text) => (output += text));
  child.stderr?.on("data", (text) => (output += text));
  return new Promise((resolve, reject) => {
    child.once("close", (code) => {
      if (code === 0) resolve(output);
      else reject(new Error(`It ended with ${code}:\n${output}`));
    });
  });
}

function linkDependencies(): void {
  const from = join(projectFolder, "node_modules");
  const to = join(folder, "node_modules");
  mkdirSync(to);
  for (const name of readdirSync(from)) {
    if (!name.startsWith(".")) symlinkSync(join(from, name), join(to, name), "junction");
  }
}

/** The package as the build would make it, without its declarations, which nobody reads here. */
async function buildPackage(): Promise<void> {
  const target = join(folder, "node_modules/drizzle-queue");
  mkdirSync(target);
  writeFileSync(join(target, "package.json"), readFileSync(join(projectFolder, "package.json")));
  const sources = readdirSync(join(projectFolder, "src"), { recursive: true, encoding: "utf8" });
  await build({
    entryPoints: sources
      .filter((name) => name.endsWith(".ts"))
      .map((name) => join(projectFolder, "src", name)),
    outbase: join(projectFolder, "src"),
    outdir: join(target, "dist"),
    format: "esm",
    platform: "node",
    target: "node20",
  });
}
