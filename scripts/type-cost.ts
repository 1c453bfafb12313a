/**
 * Measures what the library's types cost the compiler of an app with 300 jobs,
 * beside an app that only has the 300 zod schemas.
 *
 *     tsx scripts/type-cost.ts [--jobs 300] [--rounds 3]
 *
 * Exits with 1 when the whole app takes more than three times the check time
 * of the schemas alone.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

/** The most that the whole may cost, as a multiple of the schemas alone. */
const LIMIT = 3;

const projectFolder = fileURLToPath(new URL("..", import.meta.url));
const { values: args } = parseArgs({
  options: { jobs: { type: "string", default: "300" }, rounds: { type: "string", default: "3" } },
});
const numbers = Array.from({ length: Number(args.jobs) }, (_, index) => index);

const schema = (n: number): string =>
  `z.object({ id: z.string(), count${n}: z.number().default(${n}), kind: z.enum(["a", "b"]), ` +
  `at: z.iso.datetime().transform((text) => new Date(text)), note: z.string().optional() })`;
const payload = (n: number): string => `{ id: "x", count${n}: 1, kind: "a", at: "" }`;
const lines = (line: (n: number) => string): string => numbers.map(line).join("\n");

const schemasOnly = `
import { z } from "zod";
${lines((n) => `const schema${n} = ${schema(n)};`)}
${lines((n) => `export type In${n} = z.input<typeof schema${n}>; export type Out${n} = z.output<typeof schema${n}>;`)}
${lines((n) => `export const in${n}: In${n} = ${payload(n)};`)}
${lines((n) => `export const at${n} = (out: Out${n}): Date => out.at;`)}
`;

const definitions = `
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { z } from "zod";
export const jobs = defineJobs({
${lines((n) => `job${n}: defineJob({ payload: ${schema(n)}, idempotencyKey: (p) => [p.id, p.count${n}, p.at.getTime()] }),`)}
});
export const queue = createQueue({ jobs });
`;

const everything = `
import { drizzle } from "drizzle-orm/node-postgres";
import type { TxOf } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { queue } from "./definitions.js";
const db = drizzle("postgres://localhost/app");
type Tx = TxOf<typeof db>;
export async function enqueueAll(tx: Tx): Promise<void> {
${lines((n) => `await queue.enqueue(tx, "job${n}", ${payload(n)});`)}
await queue.enqueueMany(tx, [
${numbers
  .slice(0, 50)
  .map((n) => `{ name: "job${n}", payload: ${payload(n)} },`)
  .join("\n")}
]);
}
createWorker({ queue, db, handlers: {
${lines((n) => `job${n}: async ({ payload, commit }) => { const at: Date = payload.at; void at; await commit((tx) => void tx); },`)}
} });
`;

interface Cost {
  readonly checkSeconds: number;
  readonly instantiations: number;
}

function compile(folder: string, file: string): Cost {
  const config = {
    extends: join(projectFolder, "tsconfig.json"),
    compilerOptions: {
      noUnusedLocals: false,
      paths: {
        "drizzle-queue": [join(projectFolder, "src/index.ts")],
        "drizzle-queue/worker": [join(projectFolder, "src/worker/index.ts")],
      },
    },
    files: [file],
    include: [],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(projectFolder, "node_modules/typescript/bin/tsc");
  const output = execFileSync(process.execPath, [tsc, "-p", folder, "--extendedDiagnostics"], {
    encoding: "utf8",
  });
  const figure = (name: string): number =>
    Number(new RegExp(`${name}:\\s+([\\d.]+)`).exec(output)?.[1]);
  return { checkSeconds: figure("Check time"), instantiations: figure("Instantiations") };
}

const median = (numbers: number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

const folder = mkdtempSync(join(tmpdir(), "type-cost-"));
try {
  symlinkSync(join(projectFolder, "node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const sources = {
    "schemas.ts": schemasOnly,
    "definitions.ts": definitions,
    "everything.ts": everything,
  };
  for (const [file, source] of Object.entries(sources)) writeFileSync(join(folder, file), source);
  const rounds = Array.from({ length: Number(args.rounds) }, () =>
    Object.keys(sources).map((file) => compile(folder, file)),
  );
  // The library's own sources are checked along, which an app that installs the package does not do.
  const costs = Object.keys(sources).map((file, index) => ({
    file,
    "check, s": median(rounds.map((round) => round[index]?.checkSeconds ?? Number.NaN)),
    instantiations: rounds[0]?.[index]?.instantiations,
  }));
  console.table(costs);
  const ratio = (costs[2]?.["check, s"] ?? Number.NaN) / (costs[0]?.["check, s"] ?? Number.NaN);
  console.log(
    `${numbers.length} jobs: ${ratio.toFixed(2)} times the schemas alone (limit ${LIMIT}).`,
  );
  process.exitCode = ratio <= LIMIT ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true });
}
