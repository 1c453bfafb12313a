import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { installFixture } from "../support/matrix/install-fixture.js";

/** The majors of drizzle-orm that apps may use. */
export const DRIZZLE_MAJORS = ["0.45", "1.0"] as const;

/** One of {@link DRIZZLE_MAJORS}. */
export type DrizzleMajor = (typeof DRIZZLE_MAJORS)[number];

/** An error that the compiler found, or that a fixture announces. */
export interface CompileError {
  /** As the compiler prints it; a fixture may announce two, `TS2345/TS2379`. */
  readonly code: string;
  /** The whole chain of messages; what a fixture announces is a part of it. */
  readonly message: string;
  /** The last line before the error that announces one; 0 without. */
  readonly announcedAt: number;
}

const projectFolder = fileURLToPath(new URL("../..", import.meta.url));
const fixturePath = (fixture: string): string =>
  join(projectFolder, "test/compile-errors/fixtures", fixture);

/** Compiles fixtures with the project's settings, as an app with that major of drizzle-orm would. */
export function compileFixtures(
  major: DrizzleMajor,
  fixtures: readonly string[],
): ReadonlyMap<string, CompileError[]> {
  const options = projectOptions();
  const ours = Object.entries(options.paths ?? {}).map(([name, [path]]) => [
    name,
    [join(projectFolder, path ?? "")],
  ]);
  const program = ts.createProgram(fixtures.map(fixturePath), {
    ...options,
    paths: { ...(Object.fromEntries(ours) as ts.MapLike<string[]>), ...drizzlePaths(major) },
  });
  return new Map(fixtures.map((fixture) => [fixture, errorsOf(program, fixture)]));
}

function projectOptions(): ts.CompilerOptions {
  const parsed = ts.getParsedCommandLineOfConfigFile(
    join(projectFolder, "tsconfig.json"),
    {},
    {
      ...ts.sys,
      onUnRecoverableConfigFileDiagnostic: (diagnostic) => {
        throw new Error(ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n"));
      },
    },
  );
  if (parsed === undefined) throw new Error("The compiler could not read tsconfig.json.");
  return parsed.options;
}

/** Every import of drizzle-orm, ours too, goes to the one copy that the app has. */
function drizzlePaths(major: DrizzleMajor): ts.MapLike<string[]> {
  const folder = major === "1.0" ? installFixture("test/support/matrix/drizzle-v1") : projectFolder;
  const drizzle = join(folder, "node_modules/drizzle-orm");
  return {
    "drizzle-orm": [join(drizzle, "index.d.ts")],
    "drizzle-orm/*": [join(drizzle, "*/index.d.ts")],
  };
}

function errorsOf(program: ts.Program, fixture: string): CompileError[] {
  const file = program.getSourceFile(fixturePath(fixture));
  if (file === undefined) throw new Error(`The compiler did not read ${fixture}.`);
  const announced = announcedErrors(fixture).map(({ announcedAt }) => announcedAt);
  return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)].map(
    (diagnostic) => {
      const line = file.getLineAndCharacterOfPosition(diagnostic.start ?? 0).line + 1;
      return {
        code: `TS${diagnostic.code}`,
        message: ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n"),
        announcedAt: announced.findLast((at) => at < line) ?? 0,
      };
    },
  );
}

/** Reads the comments of a fixture that announce errors: `// TS2345: a part of the message`. */
export function announcedErrors(fixture: string): CompileError[] {
  const lines = readFileSync(fixturePath(fixture), "utf8").split("\n");
  return lines.flatMap((line, index) => {
    const [, code, message] = /^\/\/ (TS[\d/TS]+): (.+)$/.exec(line) ?? [];
    return code === undefined || message === undefined
      ? []
      : [{ code, message, announcedAt: index + 1 }];
  });
}
