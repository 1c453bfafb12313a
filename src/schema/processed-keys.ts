import { sql } from "drizzle-orm";
import { bigint, index, jsonb, type pgTable, text, uniqueIndex } from "drizzle-orm/pg-core";
import {
  type BigInt53,
  type Bytes,
  bytes,
  type HasDefault,
  type Identity,
  type Instant,
  instant,
  type Json,
  type NotNull,
  type PrimaryKey,
  type Text,
} from "./portable-columns.js";

/** The columns of the processed keys table, in terms of the app's own drizzle-orm. */
export type QueueProcessedKeysColumns = {
  id: PrimaryKey<Identity<BigInt53>>;
  jobId: NotNull<BigInt53>;
  processedAt: HasDefault<NotNull<Instant>>;
  name: NotNull<Text>;
  idempotencyKey: NotNull<Text>;
  inputHash: Bytes;
  result: Json;
  expiresAt: Instant;
};

/** The processed keys table. */
export type QueueProcessedKeysTable<Name extends string = string> = ReturnType<
  typeof pgTable<Name, QueueProcessedKeysColumns>
>;

/**
 * Defines the processed keys table: a row says that the effect of its key is
 * committed. It outlives the job, so a key stays taken when history is pruned.
 */
export function defineProcessedKeysTable<Name extends string>(
  table: typeof pgTable,
  tableName: Name,
): QueueProcessedKeysTable<Name> {
  const columns = {
    // A key of one column: a published table refuses deletes without one, and
    // drizzle-kit 0.31 re-creates composite ones at every push.
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    // No foreign key: this row is kept when the job is deleted.
    jobId: bigint("job_id", { mode: "number" }).notNull(),
    processedAt: instant("processed_at").notNull().defaultNow(),
    name: text("name").notNull(),
    idempotencyKey: text("idempotency_key").notNull(),
    inputHash: bytes("input_hash"),
    result: jsonb("result"),
    // Null: kept for ever.
    expiresAt: instant("expires_at"),
  };
  return table(tableName, columns, (key) => [
    // Not a unique constraint: adding one makes `push` ask about truncating.
    uniqueIndex(`${tableName}_name_key_unique`).on(key.name, key.idempotencyKey),
    // Finds what is to be pruned, in its order.
    index(`${tableName}_expires_at_idx`)
      .on(key.expiresAt, key.id)
      .where(sql`expires_at is not null`),
  ]) as unknown as QueueProcessedKeysTable<Name>;
}
