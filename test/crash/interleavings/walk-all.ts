import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import type { Plugin } from "esbuild";
import { startPostgresServer } from "../../../examples/support/postgres-server.js";
import { bundle } from "../fleet/bundle.js";
import { connectDirectly } from "../fleet/server-faults.js";
import { createLedger } from "../ledger/ledger-tables.js";

/** What came of all orders. */
export interface WalkResult {
  readonly orders: number;
  readonly violations: readonly {
    readonly scenario: string;
    readonly order: readonly number[];
    readonly found: readonly string[];
  }[];
}

const migrationsFolder = fileURLToPath(new URL("../../../drizzle", import.meta.url));
const program = fileURLToPath(new URL("program.ts", import.meta.url));

/** Walks the orders against a server of its own; with a mutant of the library if one is given. */
export async function walkAll(
  options: {
    readonly seed?: number;
    readonly randomOrders?: number;
    readonly mutation?: Plugin[];
  } = {},
): Promise<WalkResult> {
  const { seed = 1, randomOrders = 100, mutation = [] } = options;
  const folder = mkdtempSync(join(tmpdir(), "drizzle-queue-interleavings-"));
  const server = await startPostgresServer();
  try {
    const client = await connectDirectly(server.url);
    await migrate(drizzle(client), { migrationsFolder });
    await createLedger(client);
    await client.end();
    const path = await bundle(program, join(folder, "interleavings.mjs"), mutation);
    const output = await outputOf(path, [server.url, String(seed), String(randomOrders)]);
    return read(output);
  } finally {
    await server.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function outputOf(path: string, args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, [path, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`The interleavings ended with ${code}:\n${errors}\n${output}`);
  return output;
}

function read(output: string): WalkResult {
  const messages = output
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { readonly what: string; readonly orders?: number });
  const end = messages.find(({ what }) => what === "end");
  return {
    orders: end?.orders ?? 0,
    violations: messages.filter(
      ({ what }) => what === "violation",
    ) as unknown as WalkResult["violations"],
  };
}
