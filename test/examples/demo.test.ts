import { existsSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { generateDrizzleJson, generateMigration } from "drizzle-kit/api";
import { eq, sql } from "drizzle-orm";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { countReports, findProblems } from "../../examples/demo/check-reports.js";
import { connect, type Database } from "../../examples/demo/database.js";
import * as schema from "../../examples/demo/schema.js";
import { createEmptyDatabase, type TestDatabase } from "../support/database.js";
import { waitUntil } from "../support/wait-until.js";
import { startProgram } from "./run-program.js";

const demoFolder = fileURLToPath(new URL("../../examples/demo/", import.meta.url));
const migrationsFolder = `${demoFolder}drizzle`;

/** The databases that examples made and have not removed. */
/** Whether the database is there that a program said it uses; other programs have theirs on the same server. */
async function hasDatabase(output: string): Promise<boolean> {
  const name = /drizzle_queue_example_\w+/.exec(output)?.[0];
  if (name === undefined) throw new Error(`No database is named in this output:\n${output}`);
  const client = new pg.Client({ connectionString: inject("databaseUrl") });
  await client.connect();
  const { rows } = await client.query("select from pg_database where datname = $1", [name]);
  await client.end();
  return rows.length === 1;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe("the demo", () => {
  test("makes every report once, though a worker is killed, and shows them on a page", async () => {
    rmSync(`${demoFolder}out`, { recursive: true, force: true });
    const { code, output } = await startProgram("demo/main.ts", inject("databaseUrl")).exit;
    for (const part of [
      /Data: +20000 real flights, 3376 airports/,
      /airport that does not exist: 422, rolled back\.\n +Jobs in the queue: 0/,
      /Asked once: +report (\d+), a new job\n +Asked again: report \1, no new job\n +Jobs in the queue: 1/,
      /64 reports were asked for over HTTP and accepted/,
      /kill -9 \d+: worker A is gone, in the middle of [1-9]\d* jobs?/,
      /64 of 64 charts/,
      /worker B took over [1-9]\d* jobs? of worker A, \d+\.\d s after the kill/,
      /64 requests, 64 jobs done, 64 charts\n +reports without a chart: 0, with more than one: 0/,
      /GET \/reports\/\d+: 200, image\/svg\+xml/,
      /Every report was made exactly once\. It took \d+\.\d s\.\nLook at the charts: .+index\.html\n$/,
    ]) {
      expect(output).toMatch(part);
    }
    expect(code).toBe(0);
    const page = readFileSync(`${demoFolder}out/index.html`, "utf8");
    expect(page.match(/<figure/g)).toHaveLength(64 + 1);
    expect(page.match(/<tr><td>|<tr class="recovered"><td>/g)).toHaveLength(64);
    expect(await hasDatabase(output)).toBe(false);
  });

  test("removes its database and its processes when it is interrupted", async () => {
    const demo = startProgram("demo/main.ts", inject("databaseUrl"));
    const [, a, b] = await waitUntil(
      "both workers run",
      () => /worker A is process (\d+), worker B is process (\d+)/.exec(demo.output()),
      { timeoutMs: 90_000 },
    );
    expect(await hasDatabase(demo.output())).toBe(true);
    demo.child.kill("SIGINT");
    const { code, output } = await demo.exit;
    expect(code, output).toBe(130);
    expect(output).toMatch(/Interrupted: removing the database …\n$/);
    expect(await hasDatabase(output)).toBe(false);
    await waitUntil("both workers are gone", () => !isAlive(Number(a)) && !isAlive(Number(b)));
  });
});

describe("the demo's check", () => {
  let database: TestDatabase;
  let db: Database;

  beforeAll(async () => {
    database = await createEmptyDatabase();
    db = connect(database.url, "test");
    await migrate(db, { migrationsFolder });
    await makeOneReport(db);
  });

  afterAll(async () => {
    await db.$client.end();
    await database.drop();
  });

  const problemsAfter = async (change: (tx: Database) => Promise<unknown>): Promise<string[]> => {
    let problems: string[] = [];
    await expect(
      db.transaction(async (tx) => {
        await change(tx as unknown as Database);
        problems = findProblems(await countReports(tx as unknown as Database), 1);
        tx.rollback();
      }),
    ).rejects.toThrow("Rollback");
    return problems;
  };

  test("finds nothing when every report was made once", async () => {
    expect(await problemsAfter(async () => undefined)).toEqual([]);
  });

  test("finds a report that was made twice", async () => {
    const twice = sql`insert into charts (report_id, svg, worker, attempt, started_at, made_at)
      select report_id, svg, worker, attempt, started_at, made_at from charts`;
    expect(await problemsAfter((tx) => tx.execute(twice))).toEqual([
      "charts: expected 1, found 2",
      "reportsWithSeveralCharts: expected 0, found 1",
    ]);
  });

  test("finds a report that was not made", async () => {
    expect(await problemsAfter((tx) => tx.delete(schema.charts))).toEqual([
      "charts: expected 1, found 0",
      "reportsWithoutChart: expected 0, found 1",
    ]);
  });

  test("finds a job that is not done", async () => {
    const failed = { status: "failed", outcome: "failed" } as const;
    expect(
      await problemsAfter((tx) =>
        tx.update(schema.queueJobs).set(failed).where(eq(schema.queueJobs.status, "done")),
      ),
    ).toEqual(["jobsDone: expected 1, found 0"]);
  });
});

describe("the demo's migrations", () => {
  test("equal its schema", async () => {
    const journal = JSON.parse(readFileSync(`${migrationsFolder}/meta/_journal.json`, "utf8"));
    const last = String(journal.entries.at(-1).idx).padStart(4, "0");
    const snapshot = `${migrationsFolder}/meta/${last}_snapshot.json`;
    expect(existsSync(snapshot)).toBe(true);
    const before = JSON.parse(readFileSync(snapshot, "utf8"));
    expect(await generateMigration(before, generateDrizzleJson(schema, before.id))).toEqual([]);
  });
});

async function makeOneReport(db: Database): Promise<void> {
  const now = new Date();
  await db.insert(schema.airports).values({ code: "ORD", name: "O'Hare", city: "Chicago" });
  const done = { status: "done", outcome: "done", finishedAt: now } as const;
  const [job] = await db
    .insert(schema.queueJobs)
    .values({ queue: "default", name: "report", payload: {}, ...done })
    .returning();
  if (job === undefined) throw new Error("No job came back.");
  await db
    .insert(schema.queueProcessedKeys)
    .values({ name: "report", idempotencyKey: "k", jobId: job.id });
  const [report] = await db
    .insert(schema.reports)
    .values({ airport: "ORD", kind: "week", jobId: job.id })
    .returning();
  if (report === undefined) throw new Error("No report came back.");
  const made = { worker: "A", attempt: 1, startedAt: now, madeAt: now };
  await db.insert(schema.charts).values({ reportId: report.id, svg: "<svg/>", ...made });
}
