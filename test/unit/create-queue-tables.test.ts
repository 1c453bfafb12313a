import { getTableColumns } from "drizzle-orm";
import { getTableConfig, type PgTable } from "drizzle-orm/pg-core";
import {
  createQueueTables,
  queueControls,
  queueExtrasSql,
  queueJobs,
  queueProcessedKeys,
  queueSchedules,
  queueWorkers,
  type TablePlace,
} from "drizzle-queue/schema";
import { describe, expect, test } from "vitest";
import { tableNames } from "../../src/schema/table-names.js";
import {
  plainControls,
  plainJobs,
  plainProcessedKeys,
  plainSchedules,
  plainWorkers,
} from "../migrations/fixtures/app/plain-tables.js";

/** PostgreSQL cuts what is longer without a word, and two names could become one. */
const MAX_IDENTIFIER_BYTES = 63;

function namesOf(table: PgTable): (string | undefined)[] {
  const { name, indexes, checks, columns } = getTableConfig(table);
  return [
    name,
    ...indexes.map((index) => index.config.name),
    ...checks.map((check) => check.name),
    ...columns
      .filter((column) => column.generatedIdentity !== undefined)
      .map((column) => `${name}_${column.name}_seq`),
  ];
}

describe("createQueueTables", () => {
  test("gives the exported tables by default", () => {
    const { queueSchema, ...tables } = createQueueTables();
    expect(queueSchema).toBeUndefined();
    const exported = [queueJobs, queueProcessedKeys, queueWorkers, queueControls, queueSchedules];
    expect(Object.values(tables).flatMap(namesOf)).toEqual(exported.flatMap(namesOf));
    expect(exported.map((table) => getTableConfig(table).name)).toEqual([
      "queue_jobs",
      "queue_processed_keys",
      "queue_workers",
      "queue_controls",
      "queue_schedules",
    ]);
  });

  test.each<TablePlace>([
    {},
    { schema: "public", prefix: "app_" },
    { schema: "queue", prefix: "" },
    { schema: "s".repeat(63), prefix: "p".repeat(33) },
  ])("names the tables as queries do, at %o", (place) => {
    const {
      queueJobs: jobs,
      queueProcessedKeys: keys,
      queueWorkers: workers,
      queueControls: controls,
      queueSchedules: schedules,
    } = createQueueTables(place);
    const qualified = [jobs, keys, workers, controls, schedules].map((table) => {
      const { schema = "public", name } = getTableConfig(table);
      return `"${schema}"."${name}"`;
    });
    const names = tableNames(place);
    expect(qualified).toEqual([
      names.jobs,
      names.processedKeys,
      names.workers,
      names.controls,
      names.schedules,
    ]);
  });

  test("makes no name that PostgreSQL would cut, even with the longest prefix", () => {
    const { queueSchema: _, ...tables } = createQueueTables({ prefix: "p".repeat(33) });
    const names = Object.values(tables).flatMap(namesOf);
    expect(names.length).toBeGreaterThan(15);
    expect(names.filter((name = "") => name.length > MAX_IDENTIFIER_BYTES)).toEqual([]);
    expect(new Set(names).size).toBe(names.length);
  });

  test.each<[string, TablePlace]>([
    ["an empty schema", { schema: "" }],
    ["a schema that PostgreSQL would cut", { schema: "s".repeat(64) }],
    ["a prefix that leaves no room for our names", { prefix: "p".repeat(34) }],
    ["bytes, not characters, over the limit", { prefix: "ü".repeat(17) }],
    ["a double quote", { schema: 'queue"; drop schema public; --' }],
    ["a backslash", { prefix: "a\\b_" }],
    ["a NUL", { prefix: "a\0" }],
  ])("refuses %s", (_, place) => {
    for (const make of [createQueueTables, queueExtrasSql, tableNames])
      expect(() => make(place)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
  });
});

test.each([[{ schemas: "queue" }], [{ schema: "queue", Prefix: "" }], [null], ["queue"]])(
  "an unknown option, or what holds none, is refused: %j",
  (place) => {
    const unknown = Object.keys(place ?? {}).find((key) => /schemas|Prefix/.test(key)) ?? "tables";
    for (const make of [createQueueTables, queueExtrasSql, tableNames]) {
      expect(() => make(place as unknown as TablePlace)).toThrow(
        expect.objectContaining({
          code: "INVALID_OPTION",
          message: expect.stringContaining(unknown),
        }),
      );
    }
  },
);

describe("the declared types of the tables", () => {
  // The declarations are proved to equal those of the plain tables; this is the other half.
  test.each([
    [queueJobs, plainJobs],
    [queueProcessedKeys, plainProcessedKeys],
    [queueWorkers, plainWorkers],
    [queueControls, plainControls],
    [queueSchedules, plainSchedules],
  ])("are those of the columns that are there", (table, plain) => {
    const shape = (of: PgTable) =>
      Object.fromEntries(
        Object.entries(getTableColumns(of)).map(([key, column]) => [
          key,
          {
            name: column.name,
            type: column.getSQLType(),
            dataType: column.dataType,
            notNull: column.notNull,
            default: column.default,
            primary: column.primary,
            identity: column.generatedIdentity?.type,
          },
        ]),
      );
    expect(shape(table)).toEqual(shape(plain));
  });
});
