/**
 * The demo: a report service that loses a worker on the way and no report.
 *
 * Run it by `npm run demo`. It needs no PostgreSQL: without DATABASE_URL it starts one of its own.
 */
import process from "node:process";
import { fileURLToPath } from "node:url";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import { openDatabase, type ThrowAwayDatabase } from "../support/open-database.js";
import { countReports, findProblems } from "./check-reports.js";
import { connect, type Database } from "./database.js";
import { type Drawn, drawWithTwoWorkers } from "./draw-with-two-workers.js";
import { REPORT_KINDS } from "./jobs.js";
import { busiestAirports, loadFlights } from "./load-flights.js";
import { readReports, readStretches } from "./read-story.js";
import { queueJobs } from "./schema.js";
import { type ReportServer, startServer } from "./server.js";
import { writePage } from "./write-page.js";

const AIRPORTS = 16;
const page = fileURLToPath(new URL("out/index.html", import.meta.url));
const migrationsFolder = fileURLToPath(new URL("drizzle", import.meta.url));

/** Tells the story in four steps; false when it did not end as it must. */
async function tellStory(
  database: ThrowAwayDatabase,
  db: Database,
  server: ReportServer,
): Promise<boolean> {
  const startedAt = performance.now();
  const airports = await busiestAirports(db, AIRPORTS);
  const wanted = airports.flatMap((airport) => REPORT_KINDS.map((kind) => ({ airport, kind })));

  console.log("\n1. A request that fails leaves no job behind");
  const refused = await post(server, { airport: "ZZZ", kind: "week" });
  console.log(`   Asked for an airport that does not exist: ${refused.status}, rolled back.`);
  console.log(`   Jobs in the queue: ${await db.$count(queueJobs)}`);

  console.log("\n2. A request that is sent twice makes one job");
  for (const time of ["Asked once: ", "Asked again:"]) {
    const { body } = await post(server, wanted[0]);
    console.log(`   ${time} report ${body.report}, ${body.isNew ? "a new job" : "no new job"}`);
  }
  console.log(`   Jobs in the queue: ${await db.$count(queueJobs)}`);

  console.log(`\n3. ${wanted.length} reports, two worker processes, and one of them is killed`);
  const answers = await Promise.all(wanted.slice(1).map((report) => post(server, report)));
  const accepted = answers.filter(({ status }) => status === 202).length + 1;
  console.log(`   ${accepted} reports were asked for over HTTP and accepted.`);
  const drawn = await drawWithTwoWorkers(database, db, wanted.length);

  console.log("\n4. Was every report made exactly once? Counted in the database:");
  if (!(await isExactlyOnce(db, wanted.length))) return false;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  const example = await showReports(db, drawn, seconds);
  const chart = await fetch(`${server.url}/reports/${example}`);
  console.log(`   GET /reports/${example}: ${chart.status}, ${chart.headers.get("content-type")}`);
  console.log(`\nEvery report was made exactly once. It took ${seconds} s.`);
  console.log(`Look at the charts: ${page}`);
  return true;
}

async function isExactlyOnce(db: Database, requested: number): Promise<boolean> {
  const counts = await countReports(db);
  const { reports, jobs, jobsDone, charts, starts } = counts;
  console.log(`   ${reports} requests, ${jobsDone} jobs done, ${charts} charts`);
  console.log(
    `   reports without a chart: ${counts.reportsWithoutChart}, with more than one: ${counts.reportsWithSeveralCharts}`,
  );
  console.log(
    `   starts: ${starts}, for ${jobs} jobs: ${starts - jobs} were cut off and done anew`,
  );
  const problems = findProblems(counts, requested);
  for (const problem of problems) console.error(`   WRONG: ${problem}`);
  return problems.length === 0;
}

/** Writes the page and gives the number of a report. */
async function showReports(db: Database, drawn: Drawn, seconds: string): Promise<number> {
  const reports = await readReports(db);
  await writePage(page, {
    summary:
      "Drawn from real flights by two worker processes. One was killed in the middle; its reports, framed in orange, were drawn by the other.",
    figures: [
      [String(reports.length), "charts"],
      [String(drawn.recovered), "taken over from the killed worker"],
      ["0", "lost or made twice"],
      [`${seconds} s`, "in all"],
    ],
    reports,
    stretches: readStretches(reports, drawn.workers, drawn.killedAt),
  });
  return reports[0]?.id ?? 0;
}

/** The answer to a request for a report. */
interface Answer {
  readonly status: number;
  readonly body: { readonly report?: number; readonly isNew?: boolean };
}

async function post(server: ReportServer, body: unknown): Promise<Answer> {
  const answer = await fetch(`${server.url}/reports`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  return { status: answer.status, body: (await answer.json()) as Answer["body"] };
}

console.log("A report service on drizzle-queue\n");
const database = await openDatabase();
console.log(`Database: ${database.description}`);
const db = connect(database.url, "report server");
database.interrupted.addEventListener("abort", () => void db.$client.end());
try {
  await migrate(db, { migrationsFolder });
  const loaded = await loadFlights(db);
  console.log(
    `Data:     ${loaded.flights} real flights, ${loaded.airports} airports (from the npm package vega-datasets)`,
  );
  const server = await startServer(db);
  console.log(`Server:   ${server.url}`);
  try {
    if (!(await tellStory(database, db, server))) process.exitCode = 1;
  } finally {
    await server.close();
  }
} finally {
  await db.$client.end();
  await database.remove();
}
