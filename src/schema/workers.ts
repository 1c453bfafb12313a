import { boolean, integer, type pgTable, text } from "drizzle-orm/pg-core";
import {
  type HasDefault,
  type Instant,
  type Int,
  instant,
  type NotNull,
  type PrimaryKey,
  type Text,
  type TextList,
} from "./portable-columns.js";

/** The columns of the workers table, in terms of the app's own drizzle-orm. */
export type QueueWorkersColumns = {
  id: PrimaryKey<Text>;
  queues: TextList;
  names: NotNull<TextList>;
  waiting: HasDefault<NotNull<ReturnType<typeof boolean>>>;
  pollIntervalMs: NotNull<Int>;
  startedAt: HasDefault<NotNull<Instant>>;
  seenAt: HasDefault<NotNull<Instant>>;
};

/** The workers table. */
export type QueueWorkersTable<Name extends string = string> = ReturnType<
  typeof pgTable<Name, QueueWorkersColumns>
>;

/**
 * Defines the workers table: who is running, and whether an enqueue should wake
 * it. A few rows, read by each enqueue, so it has no index beside its key.
 */
export function defineWorkersTable<Name extends string>(
  table: typeof pgTable,
  tableName: Name,
): QueueWorkersTable<Name> {
  const columns = {
    // `host:pid:random`, the same as a job's `locked_by`.
    id: text("id").primaryKey(),
    // Null: every queue.
    queues: text("queues").array(),
    names: text("names").array().notNull(),
    // Arrivals are rare for this worker, so each is worth a notification.
    waiting: boolean("waiting").notNull().default(false),
    pollIntervalMs: integer("poll_interval_ms").notNull(),
    startedAt: instant("started_at").notNull().defaultNow(),
    // A worker not seen lately is dead and is not waited for.
    seenAt: instant("seen_at").notNull().defaultNow(),
  };
  return table(tableName, columns) as unknown as QueueWorkersTable<Name>;
}
