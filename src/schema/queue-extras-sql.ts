import { type TablePlace, tableNames } from "./table-names.js";

/** What separates two statements in a migration of drizzle-kit. */
const BREAKPOINT = "\n--> statement-breakpoint\n";

/**
 * Returns SQL with the storage settings that Drizzle cannot express.
 *
 * Nothing depends on it for being right: without it claims still work, at about
 * twice the cost. Running it again changes nothing. Statements are separated as
 * drizzle-kit wants them, ready for `drizzle-kit generate --custom`.
 *
 * @throws {QueueError} `INVALID_OPTION` when a name is empty, too long, or holds a NUL,
 * a double quote or a backslash.
 * @example
 * await writeFile("drizzle/0001_queue_extras.sql", queueExtrasSql());
 */
export function queueExtrasSql(place: TablePlace = {}): string {
  const { jobs } = tableNames(place);
  return [
    `alter table ${jobs} set (fillfactor = 45);`,
    `alter table ${jobs} set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);`,
  ].join(BREAKPOINT);
}
