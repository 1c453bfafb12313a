import { count, eq, sql } from "drizzle-orm";
import type { Database } from "./database.js";
import { charts, queueJobs, queueProcessedKeys, reports } from "./schema.js";

/** What the database holds in the end, counted. */
export interface Counts {
  readonly reports: number;
  readonly jobs: number;
  readonly jobsDone: number;
  /** Keys that the queue keeps, so that the same job is never done again. */
  readonly keys: number;
  readonly charts: number;
  readonly reportsWithoutChart: number;
  readonly reportsWithSeveralCharts: number;
  /** How often a job was started. */
  readonly starts: number;
}

/** Counts what was asked for and what was made of it. */
export async function countReports(db: Database): Promise<Counts> {
  const chartsPerReport = db
    .select({ id: reports.id, charts: count(charts.id).as("charts") })
    .from(reports)
    .leftJoin(charts, eq(charts.reportId, reports.id))
    .groupBy(reports.id)
    .as("charts_per_report");
  const where = (condition: string) =>
    sql<number>`count(*) filter (where ${sql.raw(condition)})::int`;
  const [perReport] = await db
    .select({
      reports: count(),
      charts: sql<number>`coalesce(sum(charts), 0)::int`,
      reportsWithoutChart: where("charts = 0"),
      reportsWithSeveralCharts: where("charts > 1"),
    })
    .from(chartsPerReport);
  const [perJob] = await db
    .select({
      jobs: count(),
      jobsDone: where("status = 'done'"),
      starts: sql<number>`coalesce(sum(attempts), 0)::int`,
    })
    .from(queueJobs);
  if (perReport === undefined || perJob === undefined) throw new Error("A count gave no row.");
  return { ...perReport, ...perJob, keys: await db.$count(queueProcessedKeys) };
}

/** Compares the counts with "every report exactly once"; an empty list means that it holds. */
export function findProblems(counts: Counts, requested: number): string[] {
  const expected: Partial<Counts> = {
    reports: requested,
    jobs: requested,
    jobsDone: requested,
    keys: requested,
    charts: requested,
    reportsWithoutChart: 0,
    reportsWithSeveralCharts: 0,
  };
  return Object.entries(expected)
    .filter(([name, value]) => counts[name as keyof Counts] !== value)
    .map(([name, value]) => `${name}: expected ${value}, found ${counts[name as keyof Counts]}`);
}
