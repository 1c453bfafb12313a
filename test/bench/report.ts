import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { Cell, Result } from "./benchmark.js";
import { NODE } from "./child.js";
import { ENTRIES } from "./entries.js";
import type { BenchServer } from "./server.js";

const here = fileURLToPath(new URL(".", import.meta.url));

/** One benchmark's outcome under its name. */
export interface Outcome {
  readonly name: string;
  readonly title: string;
  readonly result: Result;
}

/** What a run was made on, and with what. */
export function describeRun(server: BenchServer, command: string) {
  const peers = JSON.parse(readFileSync(join(here, "peers/package.json"), "utf8"));
  const node = spawnSync(NODE, ["--version"], { encoding: "utf8" }).stdout.trim();
  const commit = spawnSync("git", ["rev-parse", "--short", "HEAD"], {
    cwd: here,
    encoding: "utf8",
  });
  return {
    at: new Date().toISOString(),
    command,
    commit: commit.stdout.trim(),
    machine: {
      processor: cpus()[0]?.model ?? "unknown",
      cores: cpus().length,
      memoryGiB: Math.round(totalmem() / 2 ** 30),
      kernel: release(),
      loadAverage: loadavg().map((load) => Math.round(load * 10) / 10),
    },
    node,
    postgresql: { version: server.version, settings: server.settings },
    packages: peers.dependencies,
    contenders: ENTRIES.map(({ name, settings, semantics }) => ({ name, settings, semantics })),
    arguments: process.argv.slice(2),
  };
}

/** Writes a table as Markdown; figures as median with the spread of the rounds. */
export function toMarkdown({ title, result }: Outcome): string {
  const head = `| | ${result.columns.join(" | ")} |`;
  const rule = `|---|${result.columns.map(() => "---:|").join("")}`;
  const rows = result.rows.map(
    ({ label, cells }) => `| ${label} | ${cells.map(show).join(" | ")} |`,
  );
  const notes = result.notes.map((note) => `- ${note}`);
  return [`## ${title}`, "", head, rule, ...rows, "", ...notes, ""].join("\n");
}

function show(cell: Cell): string {
  if (typeof cell === "string") return cell;
  const { median, lowest, highest, runs } = cell;
  return runs.length === 1
    ? short(median)
    : `${short(median)} (${short(lowest)}–${short(highest)})`;
}

/** Three figures are what a measurement of this kind can bear. */
function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en-US");
  return value.toPrecision(3);
}

/** What the contenders promise, side by side: a figure without it says little. */
export function semanticsTable(): string {
  const rows = ENTRIES.map(
    ({ name, settings, semantics: of }) =>
      `| ${name} | ${of.fenced} | ${of.doneRows} | ${of.recovery} | ${of.enqueueInCallersTransaction} | ${of.typedPayload} | \`${JSON.stringify(settings)}\` |`,
  );
  return [
    "## The contenders",
    "",
    "| | settling is fenced | done rows | a lost worker's job | enqueue in the caller's transaction | typed payload | settings beside concurrency |",
    "|---|---|---|---|---|---|---|",
    ...rows,
    "",
  ].join("\n");
}
