import { pgSchema, pgTable } from "drizzle-orm/pg-core";
import { defineControlsTable, type QueueControlsTable } from "./controls.js";
import { defineJobsTable, type QueueJobsTable } from "./jobs.js";
import { defineProcessedKeysTable, type QueueProcessedKeysTable } from "./processed-keys.js";
import { defineSchedulesTable, type QueueSchedulesTable } from "./schedules.js";
import { type TablePlace, tableNames } from "./table-names.js";
import { defineWorkersTable, type QueueWorkersTable } from "./workers.js";

/** What {@link createQueueTables} returns: one export for each thing drizzle-kit must see. */
export interface QueueTables<Prefix extends string = string> {
  /** The PostgreSQL schema of the tables; undefined for `public`, which needs no creating. */
  readonly queueSchema: ReturnType<typeof pgSchema> | undefined;
  readonly queueJobs: QueueJobsTable<`${Prefix}jobs`>;
  readonly queueProcessedKeys: QueueProcessedKeysTable<`${Prefix}processed_keys`>;
  readonly queueWorkers: QueueWorkersTable<`${Prefix}workers`>;
  readonly queueControls: QueueControlsTable<`${Prefix}controls`>;
  readonly queueSchedules: QueueSchedulesTable<`${Prefix}schedules`>;
}

/**
 * Defines the queue's tables in a PostgreSQL schema or under a prefix of your own.
 *
 * Export every part by itself, `queueSchema` too: drizzle-kit looks at the direct
 * exports of a schema file only. Give the same place to `createQueue`, as `tables`.
 *
 * @throws {QueueError} `INVALID_OPTION` when an option is unknown, or a name is empty, too long,
 * or holds a NUL, a double quote or a backslash.
 * @example
 * export const { queueSchema, queueJobs, queueProcessedKeys, queueWorkers, queueControls, queueSchedules } =
 *   createQueueTables({ schema: "queue", prefix: "" });
 */
export function createQueueTables<const Prefix extends string = "queue_">(
  place: TablePlace & { readonly prefix?: Prefix | undefined } = {},
): QueueTables<Prefix> {
  const names = tableNames(place);
  const prefix = names.prefix as Prefix;
  // Drizzle refuses "public" here: it is where tables are that name no schema.
  const queueSchema = names.schema === "public" ? undefined : pgSchema(names.schema);
  // The two differ in the type of the schema's name only, which no row carries.
  const table = (queueSchema?.table ?? pgTable) as typeof pgTable;
  return {
    queueSchema,
    queueJobs: defineJobsTable(table, `${prefix}jobs`),
    queueProcessedKeys: defineProcessedKeysTable(table, `${prefix}processed_keys`),
    queueWorkers: defineWorkersTable(table, `${prefix}workers`),
    queueControls: defineControlsTable(table, `${prefix}controls`),
    queueSchedules: defineSchedulesTable(table, `${prefix}schedules`),
  };
}
