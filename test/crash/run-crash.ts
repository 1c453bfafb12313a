import { createWriteStream, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import type { Plugin } from "esbuild";
import {
  type PostgresServer,
  startPostgresServer,
} from "../../examples/support/postgres-server.js";
import { bundleFleet } from "./fleet/bundle.js";
import { contest } from "./fleet/contest.js";
import { countJobs, type Progress, progress } from "./fleet/count-jobs.js";
import { createFleet, type Fleet } from "./fleet/fleet.js";
import { createNemesis, type Nemesis } from "./fleet/nemesis.js";
import { callRoll } from "./fleet/roll-call.js";
import { connectDirectly } from "./fleet/server-faults.js";
import { watchIdle } from "./fleet/watch-idle.js";
import type { SentStatements } from "./gates/sql-gates.js";
import type { FleetEntry } from "./ledger/entries.js";
import { exportLedger } from "./ledger/export-ledger.js";
import { openJournal } from "./ledger/journal.js";
import { createLedger } from "./ledger/ledger-tables.js";
import type { RunFacts } from "./ledger/read-ledger.js";
import type { FaultPlan } from "./plan/fault.js";
import type { Level } from "./plan/level.js";
import { slots } from "./plan/make-plan.js";
import { type Contender, machineMs } from "./programs/surroundings.js";
import { createProxy, type Proxy } from "./proxy/proxy.js";

/** What a run is to be. */
export interface RunOptions {
  readonly level: Level;
  readonly plan: FaultPlan;
  readonly seed: number;
  /** Whose workers are tried. @default "drizzle-queue" */
  readonly contender?: Contender;
  /** Changes to the library's source, by which the harness is tried itself. */
  readonly mutation?: Plugin[];
  /** Told about once a second how far the run is. */
  readonly onProgress?: (progress: Progress) => void;
}

/** What a run left behind, to be judged. */
export interface RunLeft {
  /** Holds every ledger, the logs and the plan. */
  readonly folder: string;
  /** Statement texts by application, as they went over the wire. */
  readonly statements: SentStatements;
}

const migrationsFolder = fileURLToPath(new URL("../../drizzle", import.meta.url));

/** How long the workers get to stop, in milliseconds: grace, abort, settling, and a machine that is busy. */
const STOP_LIMIT_MS = 15_000;

interface Parts {
  readonly options: RunOptions;
  readonly folder: string;
  readonly server: PostgresServer;
  readonly proxy: Proxy;
}

/** Carries out a plan against a fleet and a server of its own; judges nothing. */
export async function runCrash(options: RunOptions): Promise<RunLeft> {
  const folder = mkdtempSync(join(tmpdir(), `drizzle-queue-crash-${options.level.name}-`));
  writeFileSync(join(folder, "plan.json"), JSON.stringify(options.plan, undefined, 1));
  const log = createWriteStream(join(folder, "server.log"));
  const server = await startPostgresServer({
    settings: SETTINGS,
    onLog: (text) => log.write(text),
  });
  const proxy = createProxy(server.url);
  try {
    await prepare(server.url);
    await conduct({ options, folder, server, proxy });
    return { folder, statements: proxy.statements() };
  } finally {
    writeFileSync(join(folder, "proxy.log"), proxy.events().join("\n"));
    await proxy.close();
    await server.dispose();
    log.end();
  }
}

const SETTINGS = {
  max_connections: "150",
  log_line_prefix: "%m [%p] %a %e ",
  log_lock_waits: "on",
  deadlock_timeout: "200ms",
  log_timezone: "UTC",
  // What the wire shows is kept by the proxy; here, errors are what matters.
  log_min_error_statement: "error",
};

async function prepare(url: string): Promise<void> {
  const client = await connectDirectly(url);
  await migrate(drizzle(client), { migrationsFolder });
  await createLedger(client);
  await client.end();
}

async function conduct(parts: Parts): Promise<void> {
  const { options, folder, server, proxy } = parts;
  const { level, plan, seed } = options;
  const bundle = await bundleFleet(folder, options.mutation);
  const journal = openJournal<FleetEntry>(join(folder, "fleet.jsonl"));
  const startedAtMs = Date.now();
  const startedOnClock = performance.now();
  const fleet = createFleet({
    level,
    seed,
    folder,
    bundle,
    startedAtMs: machineMs(),
    urlFor: proxy.urlFor,
    journal,
    contender: options.contender,
  });
  contest(proxy, slots("w", level.workers), level.leaseMs);
  const nemesis = createNemesis({
    plan,
    fleet,
    proxy,
    server,
    startedOnClock,
    untilMs: level.chaosMs + 3_000,
  });
  const unguard = endWithProcess(fleet);
  try {
    fleet.start();
    await chaos(parts, nemesis, startedOnClock);
    const healedAtMs = Date.now();
    const drainedAtMs = await quiet(parts, fleet, nemesis, startedOnClock);
    const rollCall = await callRoll(fleet, proxy, options.contender === "naive" ? "app" : "main");
    // A fleet that still works is not idle; the naive one never ends, and is to be seen all the same.
    const isWatched = drainedAtMs !== null || options.contender === "naive";
    const idle = isWatched ? await watchIdle(fleet, proxy, { idleMs: level.idleMs, folder }) : [];
    await fleet.stop(STOP_LIMIT_MS);
    const facts: RunFacts = {
      level,
      seed,
      startedAtMs,
      healedAtMs,
      drainedAtMs,
      struck: nemesis.log(),
      restartedAtMs: nemesis.restarted(),
      rollCall,
      idle,
    };
    writeFileSync(join(folder, "run.jsonl"), `${JSON.stringify(facts)}\n`);
    const client = await connectDirectly(server.url);
    await exportLedger(client, folder);
    await client.end();
  } finally {
    unguard();
    fleet.abandon();
    journal.close();
  }
}

/** Whoever ends this process ends its fleet too; the server ends with the process by itself. */
function endWithProcess(fleet: Fleet): () => void {
  const end = (signal: NodeJS.Signals): void => process.exit(signal === "SIGINT" ? 130 : 143);
  process.once("exit", fleet.abandon);
  process.once("SIGINT", end);
  process.once("SIGTERM", end);
  return () => {
    process.off("exit", fleet.abandon);
    process.off("SIGINT", end);
    process.off("SIGTERM", end);
  };
}

async function chaos({ options, server }: Parts, nemesis: Nemesis, startedOnClock: number) {
  const told = setInterval(() => {
    // A server that is down has nothing to tell; the next second asks again.
    countJobs(server.url).then(
      (counts) => options.onProgress?.(progress("chaos", options, nemesis, startedOnClock)(counts)),
      () => undefined,
    );
  }, 1_000);
  try {
    await nemesis.run();
    await nemesis.heal();
  } finally {
    clearInterval(told);
  }
}

/** Waits until no job is left to run; null when it took longer than the level allows. */
async function quiet(
  { options, server }: Parts,
  fleet: Fleet,
  nemesis: Nemesis,
  startedOnClock: number,
): Promise<number | null> {
  const untilMs = performance.now() + options.level.quietMs;
  while (performance.now() < untilMs) {
    const counts = await countJobs(server.url);
    options.onProgress?.(progress("quiet", options, nemesis, startedOnClock)(counts));
    if (fleet.producersAreDone() && counts.open === 0) return Date.now();
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return null;
}
