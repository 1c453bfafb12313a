import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";
import {
  codesIn,
  type Page,
  projectFolder,
  prose,
  readPage,
  readPages,
  withoutBlocks,
} from "./pages.js";

const pages = readPages();

test("every link in the docs leads to a file and a heading that are there", () => {
  const links = pages.flatMap((page) => linksOf(page).map((target) => ({ page, target })));
  expect(links.length).toBeGreaterThan(50);
  const broken = links.filter(({ page, target }) => !resolves(page, target));
  expect(broken.map(({ page, target }) => `${page.path}: ${target}`)).toEqual([]);
});

test("docs/guarantees.md names every test of test/guarantees", () => {
  const named = linksOf(readPage("docs/guarantees.md"));
  const tests = readdirSync(join(projectFolder, "test/guarantees"))
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `../test/guarantees/${name}`);
  expect(tests.filter((test) => !named.includes(test))).toEqual([]);
  expect(tests.length).toBeGreaterThan(0);
});

test("every source file that docs/architecture.md names is there", () => {
  const named = codesIn(withoutBlocks(readPage("docs/architecture.md"))).filter((code) =>
    /^[a-z-]+\/[a-z-]+\.ts$/.test(code),
  );
  expect(named.filter((path) => !existsSync(join(projectFolder, "src", path)))).toEqual([]);
  expect(named.length).toBeGreaterThan(10);
});

test("every page of the manual can be reached from the README", () => {
  const reached = new Set<string>();
  const visit = (path: string): void => {
    if (reached.has(path)) return;
    reached.add(path);
    const page = readPage(path);
    for (const target of linksOf(page)) {
      const [file = ""] = target.split("#");
      if (file.endsWith(".md") && !isElsewhere(target)) visit(pathOf(page, file));
    }
  };
  visit("README.md");
  expect(pages.map(({ path }) => path).filter((path) => !reached.has(path))).toEqual([]);
});

test("the README and the decisions keep to their length", () => {
  const lengthOf = ({ text }: Page): number => text.trimEnd().split("\n").length;
  const tooLong = pages.filter((page) => {
    if (page.path === "README.md") return lengthOf(page) > 150;
    return page.path.startsWith("docs/adr/") && lengthOf(page) > 60;
  });
  expect(tooLong.map(({ path }) => path)).toEqual([]);
});

test("every decision that the source cites is there", () => {
  const folder = join(projectFolder, "src");
  const cited = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .flatMap((name) => [...readFileSync(join(folder, name), "utf8").matchAll(/ADR (\d+)/g)])
    .map(([, number]) => number);
  const known = pages.map(({ path }) => /^docs\/adr\/(\d{4})-/.exec(path)?.[1]);
  expect(cited.filter((number) => !known.includes(number))).toEqual([]);
  expect(new Set(cited).size).toBeGreaterThan(2);
});

function linksOf(page: Page): readonly string[] {
  return [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target ?? "");
}

const isElsewhere = (target: string): boolean => target.startsWith("https://");

const pathOf = (page: Page, file: string): string =>
  file === "" ? page.path : normalize(join(dirname(page.path), file)).replaceAll("\\", "/");

function resolves(page: Page, target: string): boolean {
  if (isElsewhere(target)) return true;
  const [file = "", anchor] = target.split("#");
  const path = pathOf(page, file);
  if (path.startsWith("..") || !existsSync(join(projectFolder, path))) return false;
  if (anchor === undefined) return true;
  if (!path.endsWith(".md") || !statSync(join(projectFolder, path)).isFile()) return false;
  return headingsOf(readPage(path)).includes(anchor);
}

/** The anchors that a Markdown page gives its headings. */
function headingsOf(page: Page): readonly string[] {
  return [...withoutBlocks(page).matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    (heading ?? "")
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(/\s/g, "-"),
  );
}
