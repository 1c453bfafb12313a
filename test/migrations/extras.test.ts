import { getTableConfig } from "drizzle-orm/pg-core";
import { createQueueTables, queueExtrasSql } from "drizzle-queue/schema";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { storageParameters } from "./catalog.js";

const BREAKPOINT = "--> statement-breakpoint";

describe("the optional SQL", () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database.drop());

  /** As the migrators of drizzle-orm do: statement by statement. */
  async function apply(sql: string): Promise<void> {
    for (const statement of sql.split(BREAKPOINT)) await database.pool.query(statement);
  }

  test("sets storage parameters once, however often it runs", async () => {
    expect(await storageParameters(database.pool)).toEqual([]);
    await apply(queueExtrasSql());
    const first = await storageParameters(database.pool);
    expect(first).toMatchInlineSnapshot(`
      [
        {
          "name": "queue_jobs",
          "options": [
            "fillfactor=45",
            "autovacuum_vacuum_scale_factor=0.01",
            "autovacuum_vacuum_cost_delay=0",
          ],
          "toast": null,
        },
      ]
    `);
    await apply(queueExtrasSql());
    expect(await storageParameters(database.pool)).toEqual(first);
  });

  test("is one statement between breakpoints", () => {
    for (const statement of queueExtrasSql().split(BREAKPOINT))
      expect(statement.match(/;/g)).toHaveLength(1);
  });

  test("names the tables of another place", async () => {
    await database.pool.query(`create schema "my queue"; create table "my queue"."Jobs_jobs" ()`);
    const place = { schema: "my queue", prefix: "Jobs_" };
    expect(getTableConfig(createQueueTables(place).queueJobs).name).toBe("Jobs_jobs");
    await apply(queueExtrasSql(place));
    expect(await storageParameters(database.pool)).toContainEqual(
      expect.objectContaining({ name: '"my queue"."Jobs_jobs"' }),
    );
  });
});
