import { QueueError } from "../errors.js";
import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { sqlState } from "./sql-errors.js";

/** No such table, column or schema. */
const MISSING = ["42P01", "42703", "3F000"];

/** Says what to do where a statement finds the queue's tables missing or outdated, at start or later. */
export function explainingMissingTables<E extends Executor>(executor: E, tables: TableNames): E {
  return {
    ...executor,
    async run(statement) {
      try {
        return await executor.run(statement);
      } catch (error) {
        throw MISSING.includes(sqlState(error) ?? "") ? tablesMissing(tables, error) : error;
      }
    },
  };
}

function tablesMissing(tables: TableNames, cause: unknown): QueueError {
  const isDefault = tables.schema === "public" && tables.prefix === "queue_";
  const reexport = isDefault
    ? 'Re-export "drizzle-queue/schema" from the app\'s schema'
    : `Export what createQueueTables({ schema: "${tables.schema}", prefix: "${tables.prefix}" }) gives from the app's schema`;
  return new QueueError(
    "TABLES_MISSING",
    `The tables ${tables.jobs}, ${tables.processedKeys}, ${tables.workers}, ${tables.controls} and ${tables.schedules} are not in this database, or of an older version. ${reexport}, run drizzle-kit generate and migrate, and see that db is connected to the right database.`,
    { cause },
  );
}
