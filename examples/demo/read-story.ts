import { eq } from "drizzle-orm";
import type { Database } from "./database.js";
import { airports, charts, reports } from "./schema.js";
import type { WorkerProcess } from "./worker-process.js";

/** A report with its chart and how it came about. */
export type FinishedReport = Awaited<ReturnType<typeof readReports>>[number];

/** A stretch of time that a worker spent on a job, in milliseconds since the first start. */
export interface Stretch {
  readonly worker: string;
  /** A worker has several jobs at once: each runs in a lane that is free. */
  readonly lane: number;
  readonly from: number;
  readonly to: number;
  readonly ended: "done" | "done by a second worker" | "killed";
}

/** Every report in the order in which they were asked for. */
export function readReports(db: Database) {
  return db
    .select({
      id: reports.id,
      airport: reports.airport,
      kind: reports.kind,
      airportName: airports.name,
      city: airports.city,
      jobId: reports.jobId,
      requestedAt: reports.requestedAt,
      attempt: charts.attempt,
      worker: charts.worker,
      svg: charts.svg,
      startedAt: charts.startedAt,
      madeAt: charts.madeAt,
    })
    .from(reports)
    .innerJoin(airports, eq(airports.code, reports.airport))
    .innerJoin(charts, eq(charts.reportId, reports.id))
    .orderBy(reports.id);
}

/** Puts together who worked when on what, starts that led to nothing among them. */
export function readStretches(
  finished: readonly FinishedReport[],
  workers: readonly WorkerProcess[],
  killedAt: number,
): Stretch[] {
  const ends = new Map(
    finished.map(({ jobId, attempt, madeAt }) => [`${jobId}/${attempt}`, madeAt.getTime()]),
  );
  const first = Math.min(...workers.flatMap(({ starts }) => starts.map(({ at }) => at)));
  return workers.flatMap(({ name, starts }) => {
    const freeAt: number[] = [];
    return starts.map(({ jobId, attempt, at }) => {
      const end = ends.get(`${jobId}/${attempt}`);
      const free = freeAt.findIndex((until) => until <= at);
      const lane = free === -1 ? freeAt.length : free;
      freeAt[lane] = end ?? killedAt;
      const ended = end === undefined ? "killed" : attempt > 1 ? "done by a second worker" : "done";
      return { worker: name, lane, from: at - first, to: (end ?? killedAt) - first, ended };
    });
  });
}
