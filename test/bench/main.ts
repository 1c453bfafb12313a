/** `npm run bench`: measures the queue beside others and writes what came out. */
import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Bench } from "./benchmark.js";
import { BENCHMARKS, type Planned } from "./benchmarks.js";
import { NODE } from "./child.js";
import { resultTable } from "./markdown.js";
import { describeMachine, type Outcome, readOutcomes, writeOutcome } from "./outcomes.js";
import { startRedisServer } from "./redis-server.js";
import { reportOf } from "./report.js";
import { createSeeds, openBench } from "./seeds.js";
import { startBenchServer } from "./server.js";

const here = fileURLToPath(new URL(".", import.meta.url));

const { values: options } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [] },
    jobs: { type: "string" },
    rounds: { type: "string" },
    seconds: { type: "string", default: "300" },
    concurrency: { type: "string", default: "24" },
    "no-fsync": { type: "boolean", default: false },
    report: { type: "string" },
    render: { type: "boolean", default: false },
    out: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  },
});

const HELP = `npm run bench -- [options]

  --only NAME       only this one; may be given several times, or several with commas
  --report FILE     measure what the report is made of, at its sizes, and write it; with --only,
                    measure these again and keep what is there of the others
  --render          measure nothing: write the report from the figures that are there
  --jobs N          jobs of a drain; other counts follow (100000)
  --rounds N        rounds, by turns (5)
  --seconds N       how long the soak goes on (300)
  --concurrency N   handlers at once (24)
  --no-fsync        do not wait for the disk
  --out FOLDER      where the figures go (test/bench/dist/results; with --report test/bench/results)

`;

const say = (text: string): void => void process.stderr.write(`${text}\n`);
const out = options.out ?? join(here, options.report === undefined ? "dist/results" : "results");

function help(): string {
  const lines = BENCHMARKS.map(({ benchmark: { name, title }, share }) => {
    const minutes = share === undefined ? "on request" : `${share.minutes} min`;
    return `  ${name.padEnd(17)} ${minutes.padEnd(11)} ${title}`;
  });
  return `${HELP}Benchmarks, and how long each takes as part of the report:\n\n${lines.join("\n")}\n`;
}

/** The peers, and the Node that all run on, are no dependencies of the project. */
function installPeers(): void {
  if (existsSync(NODE)) return;
  say("Installing what is compared with (once) …");
  const args = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
  const done = spawnSync("npm", args, { cwd: join(here, "peers"), stdio: "inherit" });
  if (done.status !== 0) throw new Error("npm ci in test/bench/peers failed.");
}

function chosen(): readonly Planned[] {
  const names = options.only.flatMap((name) => name.split(","));
  if (names.length === 0) return BENCHMARKS.filter(({ share }) => share !== undefined);
  const known = BENCHMARKS.map(({ benchmark }) => benchmark.name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new Error(`There is no benchmark "${unknown}". There are: ${known.join(", ")}.`);
  return BENCHMARKS.filter(({ benchmark }) => names.includes(benchmark.name));
}

/** What was asked for on the command line, else what the report takes, else what is usual. */
function sizeOf({ share }: Planned): Pick<Bench, "jobs" | "rounds"> {
  const planned = options.report === undefined ? undefined : share;
  return {
    jobs: Number(options.jobs ?? (planned?.jobs || 100_000)),
    rounds: Number(options.rounds ?? planned?.rounds ?? 5),
  };
}

async function measureAll(planned: readonly Planned[]): Promise<void> {
  installPeers();
  const server = await startBenchServer(!options["no-fsync"]);
  const redis = await startRedisServer(!options["no-fsync"]);
  say(
    `PostgreSQL ${server.version} of this run's own, a commit takes ${server.commitMs.toFixed(2)} ms`,
  );
  say(
    redis === undefined
      ? "No redis-server here: BullMQ on Redis is left out"
      : `Redis ${redis.version} of this run's own`,
  );
  const seeds = createSeeds(server);
  try {
    for (const [index, one] of planned.entries()) {
      const { name, title, run } = one.benchmark;
      const size = sizeOf(one);
      const minutes =
        one.share === undefined ? "" : `, about ${one.share.minutes} min in the report`;
      say(`\n[${index + 1}/${planned.length}] ${name}: ${title}${minutes}`);
      const machine = describeMachine(server, redis);
      const beganMs = performance.now();
      const { seconds, concurrency } = options;
      const bench = openBench({
        server,
        redis,
        seeds,
        seconds: Number(seconds),
        concurrency: Number(concurrency),
        ...size,
      });
      const result = await run(bench);
      const tookSeconds = Math.round((performance.now() - beganMs) / 1_000);
      const description = {
        ...machine,
        ...size,
        tookSeconds,
        command: commandOf(name),
        concurrency: Number(concurrency),
      };
      keep({ name, title, run: description, result });
    }
  } finally {
    await redis?.dispose();
    await server.dispose();
  }
}

function commandOf(name: string): string {
  const args = process.argv.slice(2).join(" ");
  return options.only.length > 0
    ? `npm run bench -- ${args}`
    : `npm run bench -- --only ${name} ${args}`.trim();
}

/** After each, so that a run that is broken off leaves what it has. */
function keep(outcome: Outcome): void {
  writeOutcome(out, outcome);
  process.stdout.write(`\n## ${outcome.title}\n\n${resultTable(outcome.result)}\n`);
  if (options.report !== undefined) writeReport(options.report);
}

function writeReport(file: string): void {
  const names = BENCHMARKS.map(({ benchmark }) => benchmark.name);
  const outcomes = readOutcomes(out, names);
  const missing = BENCHMARKS.filter(({ benchmark: { name } }) =>
    outcomes.every((outcome) => outcome.name !== name),
  ).map(({ benchmark: { name, title } }) => `${title} (\`${name}\`)`);
  writeFileSync(file, reportOf(outcomes, missing));
}

if (options.help) process.stdout.write(help());
else {
  if (!options.render) await measureAll(chosen());
  if (options.report !== undefined) writeReport(options.report);
  say(`\nFigures: ${out}${options.report === undefined ? "" : `; report: ${options.report}`}`);
}
