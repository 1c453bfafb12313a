import { setTimeout as sleep } from "node:timers/promises";
import { and, count, eq, gt, sql } from "drizzle-orm";
import type { ThrowAwayDatabase } from "../support/open-database.js";
import type { Database } from "./database.js";
import { createProgress, type Made, type Progress, sum } from "./progress.js";
import { charts, queueJobs } from "./schema.js";
import { startWorker, type WorkerProcess } from "./worker-process.js";

/** What happened while the charts were drawn. */
export interface Drawn {
  readonly workers: readonly WorkerProcess[];
  /** In milliseconds since 1970. */
  readonly killedAt: number;
  /** How many jobs of the killed worker the other one did. */
  readonly recovered: number;
}

/** How long all charts together may take, in milliseconds. */
const TIME_LIMIT_MS = 90_000;

/** Lets two worker processes draw all charts, and kills one of them when a third is done. */
export async function drawWithTwoWorkers(
  database: ThrowAwayDatabase,
  db: Database,
  total: number,
): Promise<Drawn> {
  const lost = new AbortController();
  const start = (name: string) => startWorker(name, database, (error) => lost.abort(error));
  const [a, b] = await Promise.all([start("worker A"), start("worker B")]);
  console.log(`   ${a.name} is process ${a.pid}, ${b.name} is process ${b.pid}.`);
  const progress = createProgress(total);
  const until = (wanted: number) => untilMade(db, wanted, progress, lost.signal);
  await until(Math.floor(total / 3));
  const { killedAt, held } = await killAtWork(db, a);
  progress.say(`   kill -9 ${a.pid}: ${a.name} is gone, in the middle of ${jobs(held)}.`);
  await until(total);
  progress.end();
  await b.stop();
  const recovered = await tellRecovery(db, a, b, killedAt);
  return { workers: [a, b], killedAt, recovered };
}

/** Kills a worker right after it has started a job, and counts what it had in hand. */
async function killAtWork(db: Database, worker: WorkerProcess) {
  await worker.nextStart();
  const killedAt = Date.now();
  await worker.kill();
  // What it had sent when it died may still be carried out.
  const session = sql`select from pg_stat_activity where application_name = ${worker.name}`;
  while ((await db.execute(session)).rowCount !== 0) await sleep(10);
  const held = await db.$count(
    queueJobs,
    and(eq(queueJobs.status, "running"), eq(queueJobs.lockedBy, worker.workerId)),
  );
  return { killedAt, held };
}

async function tellRecovery(
  db: Database,
  killed: WorkerProcess,
  other: WorkerProcess,
  killedAt: number,
): Promise<number> {
  const again = other.starts.filter(({ attempt }) => attempt > 1);
  const recovered = await db.$count(charts, gt(charts.attempt, 1));
  const firstMs = Math.min(...again.map(({ at }) => at)) - killedAt;
  console.log(
    `   ${other.name} took over ${jobs(recovered)} of ${killed.name}, ${(firstMs / 1000).toFixed(1)} s after the kill:`,
  );
  console.log(
    "   a lease lasts 3 s here, and a dead worker renews none. Nobody had to tell anyone.",
  );
  return recovered;
}

const jobs = (n: number): string => (n === 1 ? "1 job" : `${n} jobs`);

async function untilMade(
  db: Database,
  wanted: number,
  progress: Progress,
  lost: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + TIME_LIMIT_MS;
  for (;;) {
    lost.throwIfAborted();
    const made = await countMade(db);
    progress.show(made);
    if (sum(made) >= wanted) return;
    if (performance.now() > deadline)
      throw new Error(`${sum(made)} charts in ${TIME_LIMIT_MS / 1000} s instead of ${wanted}.`);
    await sleep(100);
  }
}

async function countMade(db: Database): Promise<Made> {
  const rows = await db
    .select({ worker: charts.worker, made: count() })
    .from(charts)
    .groupBy(charts.worker)
    .orderBy(sql`1`);
  return new Map(rows.map(({ worker, made }) => [worker, made]));
}
