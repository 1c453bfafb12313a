import { CLAIMING } from "./claiming.js";
import { CONNECTIONS } from "./connections.js";
import { ENQUEUEING } from "./enqueueing.js";
import type { CoveringTest, FieldFault } from "./fault.js";
import { LEASES } from "./leases.js";
import { SCHEDULES } from "./schedules.js";

/** The faults by section, in the order of the page. */
export const SECTIONS: readonly (readonly [string, readonly FieldFault[]])[] = [
  ["A. Leases, recovery, completion", LEASES],
  ["B. Connections, failover, server settings", CONNECTIONS],
  ["C. Claiming and waking", CLAIMING],
  ["D. Enqueueing", ENQUEUEING],
  ["E. Schedules", SCHEDULES],
];

/** Writes docs/field-faults.md. */
export function fieldFaultsPage(): string {
  const faults = SECTIONS.flatMap(([, ofSection]) => ofSection);
  const held = faults.filter(({ tests }) => tests.length > 0).length;
  const parts = SECTIONS.map(([title, ofSection]) => `## ${title}\n\n${table(ofSection)}\n`);
  return `${introduction(faults.length, held)}\n${parts.join("\n")}`;
}

const introduction = (all: number, held: number): string => `# Faults from the field

What users of job queues on PostgreSQL have reported in public, what is right instead, and the test that holds it here: ${held} of ${all}; the
others say why there is none. The labels are ours; the last column links reports of the fault, or of its kind.

Written by \`npm run field-faults\` from the lists in [test/field-faults](../test/field-faults); a test fails when this page is stale, or names a test that is not there.
`;

function table(faults: readonly FieldFault[]): string {
  const rows = faults.map(
    (fault) =>
      `| ${fault.id} | ${fault.fault} | ${fault.outcome} | ${coverage(fault)} | ${fault.seen.map(report).join(" · ")} |`,
  );
  return ["| | fault | right | held by | seen |", "|---|---|---|---|---|", ...rows].join("\n");
}

function coverage({ tests, reason }: FieldFault): string {
  const files = [...new Set(tests.map(({ file }) => file))];
  const links = files.map((file) => link(file, tests));
  return [...links, ...(reason === undefined ? [] : [reason])].join("<br>");
}

function link(file: string, tests: readonly CoveringTest[]): string {
  const names = tests.filter((test) => test.file === file).map(({ name }) => `“${name}”`);
  const title = file.replace(/^.*\//, "").replace(/\.test\.ts$/, "");
  return `[${title}](../test/${file}): ${names.join(", ")}`;
}

function report(seen: string): string {
  const [, repository, number] = /^([\w.-]+\/[\w.-]+)#(\d+)$/.exec(seen) ?? [];
  if (repository === undefined) return `[${new URL(seen).hostname}](${seen})`;
  return `[${seen}](https://github.com/${repository}/issues/${number})`;
}
