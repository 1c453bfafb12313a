import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { generateDrizzleJson, generateMigration, pushSchema } from "drizzle-kit/api";
import { drizzle } from "drizzle-orm/node-postgres";
import { getTableConfig, integer, pgTable } from "drizzle-orm/pg-core";
import {
  queueControls,
  queueJobs,
  queueProcessedKeys,
  queueSchedules,
  queueWorkers,
} from "drizzle-queue/schema";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import config from "../../drizzle.config.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { columnNames } from "./catalog.js";
import { NOTHING_TO_GENERATE, runNode } from "./fixture-app.js";

const tables = { queueJobs, queueProcessedKeys, queueWorkers, queueControls, queueSchedules };
const projectFolder = fileURLToPath(new URL("../..", import.meta.url));
const migrationsFolder = join(projectFolder, "drizzle");

type Snapshot = ReturnType<typeof generateDrizzleJson>;

function latestSnapshot(): Snapshot {
  const snapshots = readdirSync(join(migrationsFolder, "meta"))
    .filter((name) => name.endsWith("_snapshot.json"))
    .sort();
  return JSON.parse(
    readFileSync(join(migrationsFolder, "meta", snapshots.at(-1) ?? "missing"), "utf8"),
  );
}

describe("the migrations in drizzle/", () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database.drop());

  test("need no further one", async () => {
    expect(await generateMigration(latestSnapshot(), generateDrizzleJson(tables))).toEqual([]);
  });

  test("would need one if the schema had another table", async () => {
    const more = { ...tables, extra: pgTable("extra", { id: integer("id").primaryKey() }) };
    expect(await generateMigration(latestSnapshot(), generateDrizzleJson(more))).toHaveLength(1);
  });

  test("leave drizzle-kit generate nothing to do", async () => {
    // Below the project: drizzle-kit takes the folder of its output as relative to where it runs.
    const copy = mkdtempSync(join(projectFolder, "node_modules/.cache-migrations-"));
    try {
      cpSync(migrationsFolder, copy, { recursive: true });
      const before = readdirSync(copy, { recursive: true });
      const said = await runNode(
        [
          "node_modules/drizzle-kit/bin.cjs",
          "generate",
          `--dialect=${config.dialect}`,
          `--schema=${String(config.schema)}`,
          `--out=${copy.slice(projectFolder.length)}`,
        ],
        projectFolder,
      );
      expect(said).toContain(NOTHING_TO_GENERATE);
      expect(readdirSync(copy, { recursive: true })).toEqual(before);
    } finally {
      rmSync(copy, { recursive: true, force: true });
    }
  });

  test("leave drizzle-kit push nothing to do", async () => {
    const { statementsToExecute, warnings } = await pushSchema(tables, drizzle(database.pool));
    expect({ statementsToExecute, warnings }).toEqual({ statementsToExecute: [], warnings: [] });
  });

  test.each(Object.entries(tables))("make the columns of %s in their order", async (_, table) => {
    const { name, columns } = getTableConfig(table);
    expect(await columnNames(database.pool, name)).toEqual(columns.map((column) => column.name));
  });
});
