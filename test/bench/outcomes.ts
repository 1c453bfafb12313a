import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Cell, Result } from "./benchmark.js";
import { NODE } from "./child.js";
import type { RedisServer } from "./redis-server.js";
import type { BenchServer } from "./server.js";

const here = fileURLToPath(new URL(".", import.meta.url));

/** One benchmark's outcome, and what it was measured on and with. */
export interface Outcome {
  readonly name: string;
  readonly title: string;
  readonly run: RunDescription;
  readonly result: Result;
}

/** What a run was made on, and with what. */
export interface RunDescription {
  readonly at: string;
  readonly tookSeconds: number;
  readonly command: string;
  readonly commit: string;
  readonly jobs: number;
  readonly rounds: number;
  readonly concurrency: number;
  /** Of the minute before: what else the machine was doing. */
  readonly loadBefore: number;
  readonly machine: {
    readonly processor: string;
    readonly cores: number;
    readonly memoryGiB: number;
    readonly kernel: string;
    readonly commitMs: number;
  };
  readonly node: string;
  readonly postgresql: Settings;
  /** Null where none is installed. */
  readonly redis: Settings | null;
  readonly packages: Readonly<Record<string, string>>;
}

interface Settings {
  readonly version: string;
  readonly settings: Readonly<Record<string, string>>;
}

/** Says what a benchmark is about to be run on. */
export function describeMachine(server: BenchServer, redis: RedisServer | undefined) {
  const peers = JSON.parse(readFileSync(join(here, "peers/package.json"), "utf8"));
  return {
    at: new Date().toISOString(),
    commit: firstLine("git", "describe", "--always", "--dirty", "--exclude=*"),
    loadBefore: Math.round((loadavg()[0] ?? 0) * 10) / 10,
    machine: {
      processor: cpus()[0]?.model ?? "unknown",
      cores: cpus().length,
      memoryGiB: Math.round(totalmem() / 2 ** 30),
      kernel: release(),
      commitMs: server.commitMs,
    },
    node: firstLine(NODE, "--version"),
    postgresql: { version: server.version, settings: server.settings },
    redis: redis === undefined ? null : { version: redis.version, settings: redis.settings },
    packages: peers.dependencies as Readonly<Record<string, string>>,
  };
}

function firstLine(command: string, ...args: readonly string[]): string {
  return spawnSync(command, args, { cwd: here, encoding: "utf8" }).stdout.trim();
}

/** Keeps an outcome in a file of its own, in place of the one from before. */
export function writeOutcome(folder: string, outcome: Outcome): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${outcome.name}.json`), `${JSON.stringify(outcome, null, 1)}\n`);
}

/** Reads those of these names that are there. */
export function readOutcomes(folder: string, names: readonly string[]): readonly Outcome[] {
  return names
    .map((name) => join(folder, `${name}.json`))
    .filter((file) => existsSync(file))
    .map((file) => JSON.parse(readFileSync(file, "utf8")) as Outcome);
}

/** Finds a cell by the row's and the column's names. */
export function cellOf(
  outcomes: readonly Outcome[],
  name: string,
  row: string,
  column: string,
): Cell | undefined {
  const result = outcomes.find((outcome) => outcome.name === name)?.result;
  const index = result?.columns.indexOf(column) ?? -1;
  return result?.rows.find(({ label }) => label === row)?.cells[index];
}
