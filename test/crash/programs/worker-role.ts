import { join } from "node:path";
import process from "node:process";
import type { Instrumentation } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import type { AttemptEntry } from "../ledger/entries.js";
import { openJournal } from "../ledger/journal.js";
import { createHandlers } from "./handlers.js";
import { createCrashQueue } from "./jobs.js";
import { runNaiveQueue } from "./naive-queue.js";
import { openPool, type Surroundings } from "./surroundings.js";
import { heapBytes, whatIsLeft } from "./what-is-left.js";

/** Told too often to be kept. */
const FREQUENT = new Set(["job.claimed", "job.started", "job.done", "leases.renewed"]);

/** A worker of the fleet: claims and runs jobs until it is told to stop, or killed. */
export async function runWorker(surroundings: Surroundings): Promise<void> {
  const { level, folder, who, index, contender } = surroundings;
  const journal = openJournal<AttemptEntry>(join(folder, `attempts-w${index}.jsonl`));
  const pools = openPools(surroundings);
  const queue = createCrashQueue(level);
  const versions = new Map<number, number>();
  let starts = 0;
  const handlers = createHandlers({
    queue,
    outside: pools.outside,
    journal,
    who,
    leaseMs: level.leaseMs,
    versionOf(jobId) {
      starts += 1;
      const version = versions.get(jobId) ?? -1;
      // Else it would be the harness that keeps something of each job.
      versions.delete(jobId);
      return version;
    },
  });
  const firstHeapBytes = heapBytes();
  // What is asked for at the end of an idle while.
  process.on("SIGUSR2", () =>
    journal.write({ what: "rest", who, starts, firstHeapBytes, ...whatIsLeft() }),
  );
  if (contender === "naive") {
    // Nothing of it is worth a stop in good order.
    process.on("SIGTERM", () => process.exit(0));
    journal.write({ what: "ready", who });
    // It never gives a poison job up: whoever is watched in the end would be killed by it, or not, by chance.
    const { poison: _, ...spared } = handlers;
    return runNaiveQueue(pools, { who, slots: level.concurrency, handlers: spared, versions });
  }
  const instrumentation: Instrumentation = {
    event(event) {
      if (event.type === "job.started") versions.set(event.jobId, event.leaseVersion);
      if (!FREQUENT.has(event.type)) journal.write({ what: "event", who, event });
    },
  };
  const worker = createWorker({
    queue,
    db: pools.db,
    concurrency: level.concurrency,
    // Half the fleet deletes what is done, the other half keeps it.
    retention: { done: index % 2 === 0 ? 0 : "keep" },
    instrumentation,
    handlers,
  });
  const stop = (): void => void stopWorker(worker, [pools.pool, pools.outside]);
  process.on("SIGTERM", stop);
  journal.write({ what: "ready", who });
  await worker.start();
}

/** The app's pool, and the handlers' own one. */
function openPools(surroundings: Surroundings) {
  const { pool, db } = openPool(surroundings, {
    name: "app",
    max: surroundings.level.concurrency,
    // None: it is the library's to get out of a `commit` that nobody answers.
    queryTimeoutMs: 0,
  });
  const { pool: outside } = openPool(surroundings, {
    name: "app outside",
    max: 3,
    queryTimeoutMs: 5_000,
  });
  // The handlers' own affair: a session that ends while it is used.
  outside.on("connect", (client) => client.on("error", () => undefined));
  return { pool, db, outside };
}

/** @returns once nothing of the worker is left; a second call waits for the same stop. */
async function stopWorker(
  worker: { stop(options: { gracePeriodMs: number }): Promise<unknown> },
  pools: readonly { end(): Promise<void>; readonly ending: boolean }[],
): Promise<void> {
  await worker.stop({ gracePeriodMs: 1_000 });
  const ended = Promise.all(pools.filter((pool) => !pool.ending).map((pool) => pool.end()));
  // A session of the app's pool may be stuck in a broken network: that is not the worker's stop.
  await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 500))]);
  process.exit(0);
}
