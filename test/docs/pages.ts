import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of this project, with a slash at its end. */
export const projectFolder = fileURLToPath(new URL("../../", import.meta.url));

/** A page of the manual. */
export interface Page {
  /** Relative to the project, with slashes. */
  readonly path: string;
  readonly text: string;
}

/** A fenced block of a page. */
export interface CodeBlock {
  readonly page: string;
  readonly language: string;
  /** The line of the block's first line of code, counted from 1. */
  readonly line: number;
  readonly code: string;
}

/** Every page that we write: those at the root and all of docs/. */
export function readPages(): readonly Page[] {
  const atRoot = readdirSync(projectFolder).filter((name) => name.endsWith(".md"));
  const inDocs = readdirSync(join(projectFolder, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name.replaceAll("\\", "/")}`);
  return [...atRoot, ...inDocs].sort().map(readPage);
}

/** Reads one page by its path. */
export function readPage(path: string): Page {
  return { path, text: readFileSync(join(projectFolder, path), "utf8") };
}

/** The fenced blocks of a page, in order. */
export function codeBlocks({ path, text }: Page): readonly CodeBlock[] {
  return [...text.matchAll(/^```(\w*)[^\n]*\n([\s\S]*?)^```$/gm)].map((match) => ({
    page: path,
    language: match[1] ?? "",
    line: text.slice(0, match.index).split("\n").length + 1,
    code: match[2] ?? "",
  }));
}

/** A page without its fenced blocks. */
export const withoutBlocks = ({ text }: Page): string => text.replaceAll(/^```[\s\S]*?^```$/gm, "");

/** A page without what is code: what looks like a link there is none. */
export const prose = (page: Page): string => withoutBlocks(page).replaceAll(/`[^`\n]*`/g, "");

/** The rows of the first table whose header holds all of `columns`, as cells by column. */
export function tableRows(
  { path, text }: Page,
  columns: readonly string[],
): readonly Readonly<Record<string, string>>[] {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => {
    const cells = cellsOf(line);
    return columns.every((column) => cells.includes(column));
  });
  if (start < 0) throw new Error(`${path} has no table with the columns ${columns.join(", ")}.`);
  const header = cellsOf(lines[start] ?? "");
  const rows: Readonly<Record<string, string>>[] = [];
  for (const line of lines.slice(start + 2)) {
    if (!line.startsWith("|")) break;
    const cells = cellsOf(line);
    rows.push(Object.fromEntries(header.map((column, index) => [column, cells[index] ?? ""])));
  }
  return rows;
}

const cellsOf = (line: string): readonly string[] =>
  line.startsWith("|")
    ? line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim())
    : [];

/** The words that a cell has between backticks. */
export const codesIn = (cell: string): readonly string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code ?? "");
