/** A worker process: draws the reports that are asked for until it is told to stop. */
import process from "node:process";
import { eq } from "drizzle-orm";
import { createWorker, defineHandlers } from "drizzle-queue/worker";
import { connect } from "./database.js";
import { drawChart } from "./draw-chart.js";
import { queue } from "./jobs.js";
import { charts, flights, reports } from "./schema.js";

/** What a worker process tells the one that started it. */
export type WorkerMessage =
  | { readonly type: "ready"; readonly workerId: string }
  | ({ readonly type: "started" } & Start);

/** One start of a job; `at` is in milliseconds since 1970. */
export interface Start {
  readonly jobId: number;
  readonly attempt: number;
  readonly at: number;
}

const name = process.argv[2] ?? "worker";
const db = connect(process.env["DATABASE_URL"] ?? "", name);

const handlers = defineHandlers(queue, db, {
  report: async ({ payload, job, commit }) => {
    const startedAt = new Date();
    const [report] = await db.select().from(reports).where(eq(reports.jobId, job.id));
    if (report === undefined) throw new Error(`Job ${job.id} has no report.`);
    const rows = await db.select().from(flights).where(eq(flights.origin, payload.airport));
    const svg = await drawChart(payload.kind, rows);
    // The chart and the job's completion are committed together, or not at all.
    await commit(async (tx) => {
      const made = { worker: name, attempt: job.attempt, startedAt, madeAt: new Date() };
      await tx.insert(charts).values({ reportId: report.id, svg, ...made });
    });
  },
});

const worker = createWorker({
  queue,
  db,
  handlers,
  concurrency: 3,
  instrumentation: {
    event(event) {
      if (event.type === "job.started")
        tell({ type: "started", jobId: event.jobId, attempt: event.attempt, at: Date.now() });
    },
  },
});

function tell(message: WorkerMessage): void {
  if (process.connected) process.send?.(message);
}

async function stop(): Promise<void> {
  await worker.stop({ gracePeriodMs: 5_000 });
  await db.$client.end();
  if (process.connected) process.disconnect();
}

process.once("SIGTERM", () => void stop());
// Whoever started it has gone, or has been told that all is done.
process.once("disconnect", () => process.exit());
await worker.start();
tell({ type: "ready", workerId: worker.id });
