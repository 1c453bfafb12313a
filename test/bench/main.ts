/** `npm run bench`: measures the queue beside others and writes what came out. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Bench, Benchmark } from "./benchmark.js";
import { NODE } from "./child.js";
import { prepareFamily } from "./drain.js";
import { drainBusy, drainNoOp, openTransaction } from "./drain-benchmarks.js";
import { enqueueAlone, enqueueInTransaction } from "./enqueue-benchmarks.js";
import { idle, lateCommits, latencyIdle, latencyLoaded } from "./live-benchmarks.js";
import { describeRun, type Outcome, semanticsTable, toMarkdown } from "./report.js";
import { claimCost, commits, memory, notifyCost, processes } from "./scale-benchmarks.js";
import { type BenchServer, startBenchServer } from "./server.js";

const here = fileURLToPath(new URL(".", import.meta.url));

const BENCHMARKS: readonly Benchmark[] = [
  drainNoOp,
  drainBusy,
  openTransaction,
  enqueueInTransaction,
  enqueueAlone,
  latencyIdle,
  latencyLoaded,
  lateCommits,
  idle,
  processes,
  claimCost,
  commits,
  notifyCost,
  memory,
];

const { values: options } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [] },
    jobs: { type: "string", default: "100000" },
    rounds: { type: "string", default: "5" },
    concurrency: { type: "string", default: "24" },
    "no-fsync": { type: "boolean", default: false },
    out: { type: "string", default: join(here, "dist/results") },
  },
});

const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** The peers, and the Node that all run on, are no dependencies of the project. */
function installPeers(): void {
  if (existsSync(NODE)) return;
  say("Installing what is compared with (once) …");
  const args = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
  const done = spawnSync("npm", args, { cwd: join(here, "peers"), stdio: "inherit" });
  if (done.status !== 0) throw new Error("npm ci in test/bench/peers failed.");
}

function chosen(): readonly Benchmark[] {
  if (options.only.length === 0) return BENCHMARKS;
  return options.only.map((name) => {
    const found = BENCHMARKS.find((benchmark) => benchmark.name === name);
    if (found !== undefined) return found;
    const known = BENCHMARKS.map((benchmark) => benchmark.name).join(", ");
    throw new Error(`There is no benchmark "${name}". There are: ${known}.`);
  });
}

function createBench(server: BenchServer): Bench {
  const seeds = new Map<string, Promise<string>>();
  return {
    server,
    jobs: Number(options.jobs),
    rounds: Number(options.rounds),
    concurrency: Number(options.concurrency),
    progress: (text) => say(`${new Date().toISOString().slice(11, 19)}  ${text}`),
    seedOf(entry, jobs) {
      const key = `${entry.family} ${jobs}`;
      const seed = seeds.get(key) ?? prepareFamily(server, entry, jobs);
      seeds.set(key, seed);
      return seed;
    },
  };
}

async function main(): Promise<void> {
  const benchmarks = chosen();
  installPeers();
  const server = await startBenchServer(!options["no-fsync"]);
  say(`PostgreSQL ${server.version} of this run's own, on port ${new URL(server.urlOf("x")).port}`);
  const outcomes: Outcome[] = [];
  const command = `npm run bench -- ${process.argv.slice(2).join(" ")}`;
  try {
    const bench = createBench(server);
    for (const { name, title, run } of benchmarks) {
      say(`\n${title}`);
      outcomes.push({ name, title, result: await run(bench) });
      // After each, so that a run that is broken off leaves what it has.
      write(server, command, outcomes);
    }
  } finally {
    await server.dispose();
  }
  say(`\nWritten to ${options.out}/results.md and results.json`);
}

function write(server: BenchServer, command: string, outcomes: readonly Outcome[]): void {
  const run = describeRun(server, command);
  const markdown = [...outcomes.map(toMarkdown), semanticsTable()].join("\n");
  mkdirSync(options.out, { recursive: true });
  writeFileSync(join(options.out, "results.json"), JSON.stringify({ run, outcomes }, null, 2));
  writeFileSync(join(options.out, "results.md"), markdown);
  const last = outcomes.at(-1);
  if (last !== undefined) process.stdout.write(`\n${toMarkdown(last)}\n`);
}

await main();
