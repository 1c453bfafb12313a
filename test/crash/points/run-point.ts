import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkRun } from "../checker/check-run.js";
import { countJobs } from "../fleet/count-jobs.js";
import { createFleet, type Fleet } from "../fleet/fleet.js";
import { callRoll } from "../fleet/roll-call.js";
import { connectDirectly } from "../fleet/server-faults.js";
import type { FleetEntry } from "../ledger/entries.js";
import { exportLedger } from "../ledger/export-ledger.js";
import { openJournal } from "../ledger/journal.js";
import { type RunFacts, readLedger } from "../ledger/read-ledger.js";
import { POINT } from "../plan/level.js";
import { machineMs } from "../programs/surroundings.js";
import type { Link, Verdict } from "../proxy/link.js";
import { createProxy, type Proxy } from "../proxy/proxy.js";
import type { CrashPoint, Deed } from "./crash-point.js";

/** What came of one fault at one statement. */
export interface PointResult {
  readonly point: CrashPoint;
  readonly deed: Deed;
  /** Whether the statement was sent at all. */
  readonly hasStruck: boolean;
  readonly violations: readonly string[];
  readonly seconds: number;
  /** Every statement that was sent, for whoever wants to know what a sweep leaves out. */
  readonly statements: readonly string[];
  /** Where the evidence is, if anything was violated. */
  readonly folder: string | undefined;
}

/** What all runs of a sweep share. */
export interface PointStage {
  readonly bundle: string;
  /** Creates a database with the queue and the ledger in it. */
  readonly createDatabase: () => Promise<string>;
}

const STOP_LIMIT_MS = 15_000;

/** Runs one job of each kind, and strikes once, at one statement. */
export async function runPoint(
  stage: PointStage,
  point: CrashPoint,
  deed: Deed,
): Promise<PointResult> {
  const startedOnClock = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "drizzle-queue-point-"));
  const url = await stage.createDatabase();
  const proxy = createProxy(url);
  const trap = setTrap(proxy, point, deed);
  try {
    await conduct({ stage, folder, url, proxy, trap, worker: workerOf(point) });
  } finally {
    writeFileSync(join(folder, "proxy.log"), proxy.events().join("\n"));
    await proxy.close();
  }
  const violations = checkRun(readLedger(folder)).flatMap(({ id, violations: found }) =>
    found.map((violation) => `${id} ${violation}`),
  );
  if (violations.length === 0) rmSync(folder, { recursive: true, force: true });
  return {
    point,
    deed,
    hasStruck: trap.hasStruck(),
    violations,
    seconds: (performance.now() - startedOnClock) / 1_000,
    statements: trap.statements(),
    folder: violations.length === 0 ? undefined : folder,
  };
}

/** Even workers delete what is done, odd ones keep it. */
const workerOf = ({ retention }: CrashPoint): string => (retention === "delete" ? "w2" : "w1");

interface PointTrap {
  /** Whose processes may be killed, once there is a fleet. */
  attach(fleet: Fleet): void;
  hasStruck(): boolean;
  statements(): readonly string[];
}

/** Waits for the statement of a point, and does the deed. */
function setTrap(proxy: Proxy, point: CrashPoint, deed: Deed): PointTrap {
  const slot = point.by === "worker" ? workerOf(point) : "p1";
  const seen = new Set<string>();
  let fleet: Fleet | undefined;
  let isReady = point.after === undefined;
  let count = 0;
  let hasStruck = false;
  const kill = (): void => void fleet?.signal(slot, "SIGKILL", 50);
  proxy.intercept(slot, (statement, link) => {
    seen.add(statement);
    if (hasStruck) return undefined;
    if (!isReady) {
      if (point.after === undefined || !point.after.statement.test(statement)) return undefined;
      isReady = true;
      return verdictOf(point.after.deed, link, kill);
    }
    if (!point.statement.test(statement)) return undefined;
    count += 1;
    if (count < (point.nth ?? 1)) return undefined;
    hasStruck = true;
    return verdictOf(deed, link, kill);
  });
  return {
    attach: (attached) => void (fleet = attached),
    hasStruck: () => hasStruck,
    statements: () => [...seen].map((statement) => `${point.by}: ${statement}`),
  };
}

function verdictOf(deed: Deed, link: Link, kill: () => void): Verdict {
  switch (deed) {
    case "kill-before":
      kill();
      return "cut";
    case "kill-after":
      return { onAnswer: kill, passesAnswer: false };
    case "cut-before":
      return "cut";
    case "answer-lost":
      return "lose-answer";
    case "cut-after":
      return { onAnswer: () => link.reset(), passesAnswer: true };
  }
}

interface Scene {
  readonly stage: PointStage;
  readonly folder: string;
  readonly url: string;
  readonly proxy: Proxy;
  readonly trap: PointTrap;
  readonly worker: string;
}

async function conduct({ stage, folder, url, proxy, trap, worker }: Scene): Promise<void> {
  const journal = openJournal<FleetEntry>(join(folder, "fleet.jsonl"));
  const startedAtMs = Date.now();
  const fleet = createFleet({
    level: POINT,
    seed: 0,
    folder,
    bundle: stage.bundle,
    startedAtMs: machineMs(),
    urlFor: proxy.urlFor,
    journal,
    slots: [worker, "p1"],
  });
  trap.attach(fleet);
  try {
    fleet.start();
    const drainedAtMs = await quiet(url, fleet);
    const rollCall = await callRoll(fleet, proxy, "main");
    await fleet.stop(STOP_LIMIT_MS);
    const facts: RunFacts = {
      level: POINT,
      seed: 0,
      startedAtMs,
      healedAtMs: startedAtMs,
      drainedAtMs,
      struck: [],
      restartedAtMs: [],
      rollCall,
      idle: [],
    };
    writeFileSync(join(folder, "run.jsonl"), `${JSON.stringify(facts)}\n`);
    const client = await connectDirectly(url);
    await exportLedger(client, folder);
    await client.end();
  } finally {
    fleet.abandon();
    journal.close();
  }
}

async function quiet(url: string, fleet: Fleet): Promise<number | null> {
  const untilMs = performance.now() + POINT.quietMs;
  while (performance.now() < untilMs) {
    const { open } = await countJobs(url);
    if (fleet.producersAreDone() && open === 0) return Date.now();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return null;
}
