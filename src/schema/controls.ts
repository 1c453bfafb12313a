import { type pgTable, text } from "drizzle-orm/pg-core";
import { type Instant, instant, type PrimaryKey, type Text } from "./portable-columns.js";

/** The columns of the controls table, in terms of the app's own drizzle-orm. */
export type QueueControlsColumns = {
  queue: PrimaryKey<Text>;
  pausedAt: Instant;
};

/** The controls table. */
export type QueueControlsTable<Name extends string = string> = ReturnType<
  typeof pgTable<Name, QueueControlsColumns>
>;

/**
 * Defines the controls table: what an operator has said about whole queues. It
 * has a row for those of which something was said, and is read by each claim.
 */
export function defineControlsTable<Name extends string>(
  table: typeof pgTable,
  tableName: Name,
): QueueControlsTable<Name> {
  const columns = {
    queue: text("queue").primaryKey(),
    // Since when nobody claims from this queue. Null: it is not paused.
    pausedAt: instant("paused_at"),
  };
  return table(tableName, columns) as unknown as QueueControlsTable<Name>;
}
