import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { capacity } from "./capacity.js";
import { ENTRIES, REDIS_ENTRY } from "./entries.js";
import { type Goal, goalsOf, isReached } from "./goals.js";
import { resultTable, short, show, table } from "./markdown.js";
import type { Outcome } from "./outcomes.js";

/** What is written by hand about where the time goes; part of the report if it is there. */
const findingsFile = join(fileURLToPath(new URL(".", import.meta.url)), "findings.md");

/** Writes the whole report from the outcomes that are there. */
export function reportOf(outcomes: readonly Outcome[], missing: readonly string[]): string {
  const parts = [
    INTRODUCTION,
    goalsSection(outcomes),
    ...outcomes.map(outcomeSection),
    capacity(outcomes),
    existsSync(findingsFile) ? readFileSync(findingsFile, "utf8").trim() : "",
    contendersSection(outcomes),
    machineSection(outcomes),
    missingSection(missing),
  ];
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

const INTRODUCTION = `# Performance

drizzle-queue beside other job queues, in one run on one machine. Written by \`npm run bench -- --report docs/performance.md\`;
the figures of each table, with all rounds, are in \`test/bench/results/\`. Take ratios from here, not rates: another machine has other rates.

- A figure is the median of its rounds, with the lowest and the highest in parentheses. Contenders take turns within each round, in another order each time.
- All on the same PostgreSQL server with the same durability, the same Node, the same concurrency and the same small payload; drizzle-queue is the built
  package, installed as in an app. Each worker is a process of its own, beside the server on the same cores.
- A contender's line names everything that is set beside concurrency. "Optional SQL" is [one more migration](schema-and-migrations.md#storage-settings)
  that the documentation tells an app to add.
- What they promise differs: see [the contenders](#the-contenders) before comparing.`;

function goalsSection(outcomes: readonly Outcome[]): string {
  const rows = goalsOf(outcomes).map((goal) => [
    goal.what,
    bound(goal),
    goal.measured === undefined ? "not measured" : withUnit(show(goal.measured), goal.unit),
    { true: "yes", false: "**no**", undefined: "" }[String(isReached(goal))] ?? "",
  ]);
  return `## Goals

Set before the library was measured. Ratios are taken round by round.

${table(["what", "goal", "measured", "reached"], rows)}`;
}

function bound({ atLeast, atMost, unit }: Goal): string {
  return atLeast === undefined
    ? withUnit(`≤ ${short(atMost ?? null)}`, unit)
    : withUnit(`≥ ${short(atLeast)}`, unit);
}

const withUnit = (text: string, unit: string): string =>
  unit === "×" ? text.replace(/^([^ (]* ?[\d.,]+)/, "$1×") : `${text} ${unit}`.trim();

function outcomeSection({ title, run, result }: Outcome): string {
  const notes = result.notes.map((note) => `- ${note}`);
  const minutes = (run.tookSeconds / 60).toFixed(1);
  const made = `- \`${run.command}\`, ${run.rounds} rounds, ${run.at.slice(0, 16).replace("T", " ")} UTC, commit ${run.commit}, ${minutes} minutes; load average before it ${run.loadBefore}.`;
  return [`## ${title}`, "", resultTable(result), "", ...notes, made].join("\n");
}

/** What the contenders promise, side by side: a figure without it says little. */
function contendersSection(outcomes: readonly Outcome[]): string {
  const rows = [...ENTRIES, REDIS_ENTRY].map(({ name, settings, semantics: of }) => [
    name,
    of.fenced,
    of.doneRows,
    of.recovery,
    of.enqueueInCallersTransaction,
    of.typedPayload,
    name.startsWith("drizzle") || name.startsWith("ceiling")
      ? settings["extras"] === true
        ? "applied"
        : "not applied"
      : "",
    `\`${JSON.stringify(settings)}\``,
  ]);
  const head = [
    "",
    "settling is fenced",
    "done rows",
    "a lost worker's job",
    "enqueue in the caller's transaction",
    "typed payload",
    "optional SQL",
    "settings beside concurrency",
  ];
  const hasRedis = outcomes.some(({ run }) => run.redis !== null);
  const redis = hasRedis
    ? ""
    : "\n\nBullMQ on Redis was left out: no Redis server is installed there.";
  return `## The contenders\n\n${table(head, rows)}${redis}`;
}

function machineSection(outcomes: readonly Outcome[]): string {
  const run = outcomes.toSorted((a, b) => a.run.at.localeCompare(b.run.at)).at(-1)?.run;
  if (run === undefined) return "";
  const { machine, postgresql, redis } = run;
  const settings = (of: Readonly<Record<string, string>>): string =>
    Object.entries(of)
      .map(([name, value]) => `\`${name} = ${value}\``)
      .join(", ");
  const packages = Object.entries(run.packages).map(([name, version]) => `${name} ${version}`);
  return [
    "## Machine and versions",
    "",
    "Of the latest of the measurements above.",
    "",
    `- ${machine.processor}, ${machine.cores} cores, ${machine.memoryGiB} GiB, Linux ${machine.kernel}. A commit that writes next to nothing takes ${short(machine.commitMs)} ms (median of 200, one client).`,
    `- PostgreSQL ${postgresql.version}: ${settings(postgresql.settings)}; everything else as it comes.`,
    ...(redis === null ? [] : [`- Redis ${redis.version}: ${settings(redis.settings)}.`]),
    `- Node ${run.node} for every contender. ${packages.join(", ")}.`,
  ].join("\n");
}

function missingSection(missing: readonly string[]): string {
  if (missing.length === 0) return "";
  return `## Not measured yet\n\n${missing.map((title) => `- ${title}`).join("\n")}`;
}
