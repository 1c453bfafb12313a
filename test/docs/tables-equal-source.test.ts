import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { QueueEvent } from "drizzle-queue";
import { queueJobs } from "drizzle-queue/schema";
import { logEvents } from "drizzle-queue/worker";
import ts from "typescript";
import { expect, test } from "vitest";
import { codesIn, type Page, projectFolder, readPage, tableRows } from "./pages.js";

const errors = readPage("docs/errors.md");
const events = tableRows(readPage("docs/telemetry.md"), ["event", "level", "group", "own fields"]);

test("docs/errors.md has a section for each code of the source, and no other", () => {
  expect(headingsUnder(errors, "Codes of QueueError")).toEqual(
    union("src/errors.ts", "QueueErrorCode"),
  );
  expect(headingsUnder(errors, "Codes of AttemptError")).toEqual(
    union("src/errors.ts", "AttemptErrorCode"),
  );
});

test("docs/errors.md has each code that only rows hold", () => {
  const written = new Set(
    sourceFiles(["src/queries", "src/worker"]).flatMap((text) =>
      [...text.matchAll(/\bcode'?[:,] ["']([A-Z]+_[A-Z]+)["']/g)].map(([, code]) => code ?? ""),
    ),
  );
  expect(headingsUnder(errors, "Codes that only rows hold")).toEqual([...written].sort());
});

test("docs/telemetry.md has each event of the source with its own fields", () => {
  const documented = events.map((row) => ({
    type: codesIn(row["event"] ?? "")[0],
    group: row["group"],
    fields: [...codesIn(row["own fields"] ?? "")].sort(),
  }));
  expect(documented.sort(byType)).toEqual([...eventsOfSource()].sort(byType));
});

test("docs/telemetry.md has the level at which each event is logged", () => {
  const logged: string[] = [];
  const at = (level: string) => (type: string) => void logged.push(`${type} ${level}`);
  const logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  const listener = logEvents(logger);
  const types = events.map((row) => codesIn(row["event"] ?? "")[0]);
  for (const type of types) listener.event({ type } as QueueEvent);
  expect(logged).toEqual(types.map((type, index) => `${type} ${events[index]?.["level"]}`));
});

test("docs/state-machine.md names no state and no column that is not there", () => {
  const page = readPage("docs/state-machine.md");
  const states = union("src/schema/job-states.ts", "JOB_STATES");
  const steps = tableRows(page, ["step", "from", "to"]);
  const named = steps.flatMap((row) => [
    ...codesIn(row["from"] ?? ""),
    ...codesIn(row["to"] ?? ""),
  ]);
  expect([...new Set(named)].sort()).toEqual(states);
  const columns = Object.values(queueJobs).flatMap((column) =>
    typeof column === "object" && column !== null && "name" in column ? [String(column.name)] : [],
  );
  const changed = steps
    .flatMap((row) => codesIn(row["what else changes"] ?? ""))
    .filter((code) => /^[a-z_]+$/.test(code));
  expect(changed.filter((column) => !columns.includes(column))).toEqual([]);
  expect(changed.length).toBeGreaterThan(10);
});

const byType = (a: { type: string | undefined }, b: { type: string | undefined }): number =>
  String(a.type) < String(b.type) ? -1 : 1;

/** The names in headings of the third level between a heading of the second and the next one. */
function headingsUnder({ text }: Page, section: string): readonly string[] {
  const [, rest = ""] = text.split(`\n## ${section}\n`);
  const [body = ""] = rest.split("\n## ");
  return [...body.matchAll(/^### `(.+)`$/gm)].map(([, name]) => name ?? "").sort();
}

function sourceFiles(folders: readonly string[]): readonly string[] {
  return folders.flatMap((folder) =>
    readdirSync(join(projectFolder, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .map((name) => readFileSync(join(projectFolder, folder, name), "utf8")),
  );
}

/** The string literals inside a declaration of that name. */
function union(path: string, name: string): readonly string[] {
  const literals: string[] = [];
  const collect = (node: ts.Node): void => {
    if (ts.isStringLiteral(node)) literals.push(node.text);
    ts.forEachChild(node, collect);
  };
  const visit = (node: ts.Node): void => {
    const isIt =
      (ts.isTypeAliasDeclaration(node) || ts.isVariableDeclaration(node)) &&
      node.name.getText() === name;
    if (isIt) collect(node);
    else ts.forEachChild(node, visit);
  };
  visit(parse(path));
  return literals.sort();
}

const parse = (path: string): ts.SourceFile =>
  ts.createSourceFile(
    path,
    readFileSync(join(projectFolder, path), "utf8"),
    ts.ScriptTarget.ES2023,
    true,
  );

interface DocumentedEvent {
  readonly type: string | undefined;
  readonly group: string | undefined;
  readonly fields: string[];
}

/** Reads the members of QueueEvent: what each is added to, and the fields that it adds. */
function eventsOfSource(): readonly DocumentedEvent[] {
  const groups: Readonly<Record<string, string>> = {
    EventJob: "job",
    EventAttempt: "attempt",
    EventOccurrence: "occurrence",
  };
  const found: DocumentedEvent[] = [];
  const read = (member: ts.TypeNode): void => {
    if (ts.isParenthesizedTypeNode(member)) return read(member.type);
    const parts = ts.isIntersectionTypeNode(member) ? [...member.types] : [member];
    const literal = parts.find(ts.isTypeLiteralNode);
    const base = parts.find(ts.isTypeReferenceNode)?.getText();
    const fields = literal?.members.map((field) => field.name?.getText() ?? "") ?? [];
    const type = literal?.members
      .find((field) => field.name?.getText() === "type")
      ?.getText()
      .match(/"(.+)"/)?.[1];
    found.push({
      type,
      group: base === undefined ? "none" : groups[base],
      fields: fields.filter((field) => field !== "type").sort(),
    });
  };
  ts.forEachChild(parse("src/instrumentation/instrumentation.ts"), (node) => {
    if (!ts.isTypeAliasDeclaration(node) || node.name.text !== "QueueEvent") return;
    if (ts.isUnionTypeNode(node.type)) node.type.types.forEach(read);
  });
  return found;
}
