import { type TablePlace, tableNames } from "./table-names.js";

/** What separates two statements in a migration of drizzle-kit. */
const BREAKPOINT = "\n--> statement-breakpoint\n";

/**
 * Returns SQL with the storage settings that Drizzle cannot express.
 *
 * Nothing depends on it for being right: without it a job still runs, at 1.3 to
 * 1.6 times the cost for the server. Running it again changes nothing. Statements are separated as
 * drizzle-kit wants them, ready for `drizzle-kit generate --custom`.
 *
 * @throws {QueueError} `INVALID_OPTION` when an option is unknown, or a name is empty, too long,
 * or holds a NUL, a double quote or a backslash.
 * @example
 * await writeFile("drizzle/0001_queue_extras.sql", queueExtrasSql());
 */
export function queueExtrasSql(place: TablePlace = {}): string {
  const { jobs } = tableNames(place);
  // Measured beside 1,000,000 finished rows, at 4,000 jobs a second for 32 s, deleted
  // when done; autovacuum looked every 5 s. From one setting to the next: share of HOT
  // claims, most dead rows, size of the ready index.
  return [
    // 2 % · 238,000 · 11.5 MB becomes 100 % · 99,000 · 6.3 MB: a claimed row, which grows,
    // finds room in its page. The price is space: 194 MB of rows take 319.
    `alter table ${jobs} set (fillfactor = 45);`,
    // 62,000 · 3.4 MB: finished rows do not count toward what may lie dead.
    `alter table ${jobs} set (autovacuum_vacuum_scale_factor = 0.01);`,
    // 21,000 · 2.1 MB: a vacuum that pauses to be kind is overtaken by the queue.
    `alter table ${jobs} set (autovacuum_vacuum_cost_delay = 0);`,
    // No gain was seen from a threshold, from vacuuming after inserts, or for the TOAST
    // table; the other tables change too little.
  ].join(BREAKPOINT);
}
