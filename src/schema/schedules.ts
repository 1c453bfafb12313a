import { bigint, type pgTable, text } from "drizzle-orm/pg-core";
import {
  type BigInt53,
  type Instant,
  instant,
  type NotNull,
  type PrimaryKey,
  type Text,
} from "./portable-columns.js";

/** The columns of the schedules table, in terms of the app's own drizzle-orm. */
export type QueueSchedulesColumns = {
  name: PrimaryKey<Text>;
  lastDueAt: NotNull<Instant>;
  nextDueAt: Instant;
  lastJobId: BigInt53;
  pausedAt: Instant;
};

/** The schedules table. */
export type QueueSchedulesTable<Name extends string = string> = ReturnType<
  typeof pgTable<Name, QueueSchedulesColumns>
>;

/**
 * Defines the schedules table: how far each schedule has come. The schedules
 * themselves are code; a row is made when a scheduler first sees one.
 */
export function defineSchedulesTable<Name extends string>(
  table: typeof pgTable,
  tableName: Name,
): QueueSchedulesTable<Name> {
  const columns = {
    name: text("name").primaryKey(),
    // Up to this time all occurrences are enqueued or skipped. Whoever moves it on enqueues, in one transaction.
    lastDueAt: instant("last_due_at").notNull(),
    // For those who list them: the occurrence after that, as the last scheduler that looked has it. Null: none.
    nextDueAt: instant("next_due_at"),
    // No foreign key: it outlives the job.
    lastJobId: bigint("last_job_id", { mode: "number" }),
    // Since when nothing is enqueued. Null: it is not paused.
    pausedAt: instant("paused_at"),
  };
  return table(tableName, columns) as unknown as QueueSchedulesTable<Name>;
}
