import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Snippet, typeErrors } from "./compile.js";
import { codeBlocks, projectFolder, readPages } from "./pages.js";

const blocks = readPages().flatMap((page) =>
  codeBlocks(page)
    .filter(({ language }) => language === "ts")
    .map(
      ({ line, code }): Snippet => ({
        at: `${page.path}:${line}`,
        folder: page.path.replaceAll(/\W/g, "-"),
        code,
      }),
    ),
);
const examples = sourceFiles().flatMap(examplesIn);
const wrong: Snippet = {
  at: "wrong:7",
  folder: "wrong",
  code: 'await db.transaction((tx) => queue.enqueue(tx, "reprot", { reportId }));',
};

/** One compilation for all: most of it is reading the declarations of Drizzle and zod. */
const errors = typeErrors([...blocks, ...examples, wrong]);
const errorsOf = (snippets: readonly Snippet[]): readonly string[] =>
  errors.filter((error) => snippets.some(({ at }) => error.startsWith(`${at},`)));

test("every block of TypeScript in the docs compiles", () => {
  expect(blocks.length).toBeGreaterThan(8);
  expect(errorsOf(blocks)).toEqual([]);
});

test("every example in a doc comment compiles", () => {
  expect(examples.length).toBeGreaterThan(8);
  expect(errorsOf(examples)).toEqual([]);
});

test("a block that does not compile is found, with its place", () => {
  expect(errors).toHaveLength(1);
  expect(errors[0]).toMatch(/^wrong:7, line 1 of it: .*"reprot"/);
});

function sourceFiles(): readonly string[] {
  return readdirSync(join(projectFolder, "src"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `src/${name}`);
}

/** The text from `@example` to the end of its comment, without the stars. */
function examplesIn(path: string): readonly Snippet[] {
  const text = readFileSync(join(projectFolder, path), "utf8");
  return [...text.matchAll(/^ *\* @example\n((?: *\*(?!\/).*\n)+)/gm)].map((match, index) => ({
    at: `${path}:${text.slice(0, match.index).split("\n").length + 1}`,
    folder: `${path.replaceAll(/\W/g, "-")}-${index}`,
    code: (match[1] ?? "").replaceAll(/^ *\* ?/gm, ""),
  }));
}
