import { dirname, join } from "node:path";
import ts from "typescript";
import { projectFolder } from "./pages.js";

/** A piece of TypeScript from a page or a doc comment. */
export interface Snippet {
  /** Where it stands, to be read in a failure: "docs/errors.md:21". */
  readonly at: string;
  /** The folder that it shares with the other snippets of its page. */
  readonly folder: string;
  /** Its first line may be `// name.ts`: then that is its file. */
  readonly code: string;
}

const fixtures = join(projectFolder, "test/docs/fixtures");

/** Files that a snippet may import although its page does not show them. */
const shared: Readonly<Record<string, string>> = {
  "db.ts": 'export { db } from "../app.js";',
  "jobs.ts": 'export { jobs } from "../app.js";',
  "queue.ts": 'export { db, queue } from "../app.js";',
};

/** Type-checks snippets as an app with strict settings would; answers where and what is wrong. */
export function typeErrors(snippets: readonly Snippet[]): readonly string[] {
  const files = new Map<string, { readonly text: string; readonly at: string }>();
  for (const [index, { at, folder, code }] of snippets.entries()) {
    const inFolder = (name: string): string => join(fixtures, folder, name);
    for (const [name, text] of Object.entries(shared)) {
      if (!files.has(inFolder(name))) files.set(inFolder(name), { text, at: `shared ${name}` });
    }
    const path = inFolder(fileNameOf(code) ?? `snippet-${index}.ts`);
    if (files.get(path)?.at.startsWith("shared") === false) {
      throw new Error(`${at}: the page shows ${path} twice.`);
    }
    files.set(path, { text: asModule(code), at });
  }
  const program = programOf(files);
  return [...files].flatMap(([path, { at }]) => {
    const source = program.getSourceFile(path);
    const diagnostics = [
      ...program.getSyntacticDiagnostics(source),
      ...program.getSemanticDiagnostics(source),
    ];
    return diagnostics.map(({ messageText, start }) => {
      const line = (source?.getLineAndCharacterOfPosition(start ?? 0).line ?? 0) + 1;
      return `${at}, line ${line} of it: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
    });
  });
}

/** The file that a block says it is: `// schema.ts`, perhaps with a remark behind it. */
export const fileNameOf = (code: string): string | undefined =>
  /^\/\/ ([\w./-]+\.ts)\b/.exec(code)?.[1];

/** A fragment becomes the body of a function: it may await, return and throw. */
function asModule(code: string): string {
  if (/^(import|export)\b/m.test(code)) return code;
  return `export async function example() { ${code}\n}`;
}

function programOf(files: ReadonlyMap<string, { readonly text: string }>): ts.Program {
  const options: ts.CompilerOptions = {
    ...pathsOfProject(),
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.NodeNext,
    types: ["node"],
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: true,
    noEmit: true,
  };
  const host = ts.createCompilerHost(options);
  const [readFile, fileExists, directoryExists] = [
    host.readFile,
    host.fileExists,
    host.directoryExists?.bind(host),
  ];
  const folders = new Set([...files.keys()].map((path) => dirname(path)));
  host.readFile = (path) => files.get(path)?.text ?? readFile(path);
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.directoryExists = (path) => folders.has(path) || (directoryExists?.(path) ?? true);
  host.getSourceFile = (path, languageVersion) => {
    const text = host.readFile(path);
    return text === undefined ? undefined : ts.createSourceFile(path, text, languageVersion);
  };
  return ts.createProgram([join(fixtures, "globals.ts"), ...files.keys()], options, host);
}

/** The doors, as the project's own tests find them. */
function pathsOfProject(): ts.CompilerOptions {
  const read = ts.readConfigFile(join(projectFolder, "tsconfig.json"), ts.sys.readFile);
  const { paths } = (read.config as { compilerOptions: { paths: Record<string, string[]> } })
    .compilerOptions;
  return {
    paths: Object.fromEntries(
      Object.entries(paths).map(([door, [file]]) => [door, [join(projectFolder, file ?? "")]]),
    ),
  };
}
