import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { fieldFaultsPage, SECTIONS } from "../field-faults/page.js";
import { projectFolder, readPage } from "./pages.js";

const faults = SECTIONS.flatMap(([, ofSection]) => ofSection);

test("docs/field-faults.md is what npm run field-faults writes", () => {
  expect(readPage("docs/field-faults.md").text).toBe(fieldFaultsPage());
});

test("every test that it names is in its file, by that name", () => {
  const named = faults.flatMap(({ id, tests }) => tests.map((of) => ({ id, ...of })));
  const names = new Map(named.map(({ file }) => [file, namesIn(file)]));
  const missing = named.filter(({ file, name }) => names.get(file)?.has(name) !== true);
  expect(missing).toEqual([]);
  expect(named.length).toBeGreaterThan(60);
});

test("every fault has a label of its own and of its section, a report, and a test or a reason", () => {
  const letters = SECTIONS.flatMap(([title, of]) => of.map(({ id }) => [id[0], title[0]]));
  expect(letters.filter(([of, section]) => of !== section)).toEqual([]);
  expect(new Set(faults.map(({ id }) => id)).size).toBe(faults.length);
  const bare = faults.filter(
    ({ seen, tests, reason }) => seen.length === 0 || (tests.length === 0 && reason === undefined),
  );
  expect(bare).toEqual([]);
});

test("a test that is not there is found", () => {
  expect(namesIn("docs/field-faults.test.ts")).toContain("a test that is not there is found");
  expect(namesIn("docs/field-faults.test.ts")).not.toContain("a test that nobody wrote");
  expect(namesIn("docs/no-such-file.test.ts").size).toBe(0);
});

/** The names of a file's tests, as they are written there. */
function namesIn(file: string): ReadonlySet<string> {
  const path = join(projectFolder, "test", file);
  const names = new Set<string>();
  if (!existsSync(path)) return names;
  const source = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.ES2023);
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && callee(node.expression) === "test") {
      const [name] = node.arguments;
      if (name !== undefined && ts.isStringLiteralLike(name)) names.add(name.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return names;
}

/** What stands at the beginning of `test(…)`, `test.each(…)(…)` and their like. */
function callee(node: ts.Expression): string | undefined {
  if (ts.isIdentifier(node)) return node.text;
  if (ts.isPropertyAccessExpression(node) || ts.isCallExpression(node))
    return callee(node.expression);
  return undefined;
}
