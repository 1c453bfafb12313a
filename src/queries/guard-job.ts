import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { recordProcessedKeys } from "./record-processed-keys.js";
import { template } from "./template.js";

/** The attempt that a commit completes. */
export interface GuardedAttempt {
  readonly id: number;
  readonly leaseVersion: number;
  /** Whether the job may have an idempotency key to record. */
  readonly hasKey: boolean;
  /** The result as JSON text, or null. */
  readonly result: string | null;
}

/** What the guard answered, beside the id of its transaction. */
export type GuardAnswer =
  | { readonly kind: "held"; readonly transactionId: string }
  | { readonly kind: "lost" }
  | { readonly kind: "already_processed" };

const complete = `
  update {jobs} as job
  set status = 'done', outcome = 'done', finished_at = statement_timestamp(), lease_until = null, locked_by = null,
    result = coalesce($result::text::jsonb, result)
  where id = $id::bigint and lease_version = $version::int and status = 'running'
    and lease_until > statement_timestamp()`;

/** One word: an app's postgres.js may rename columns that have an underscore. */
const transaction = `pg_current_xact_id()::text as transaction`;

/**
 * On the app's connection it is planned at each call: 0.1 ms of the server's time
 * where the text that also records a key takes 0.3 (PostgreSQL 18.4, 2 cores).
 */
const textWithoutKey = `${complete} returning true as recorded, ${transaction}`;

const textWithKey = `
  with guarded as (${complete} returning id, name, idempotency_key, input_hash, result),
  -- After the guard: an attempt that froze between key and guard would hold all who settle this key.
  recorded as (${recordProcessedKeys("guarded")})
  select guarded.idempotency_key is null or exists (select from recorded) as recorded, ${transaction} from guarded`;

/**
 * Completes a job inside the app's transaction if its lease still holds, and
 * records its key: the last statement before that transaction commits.
 */
export function guardJob(
  tables: TableNames,
  processedKeysMs: number | null = null,
): (executor: Executor, attempt: GuardedAttempt) => Promise<GuardAnswer> {
  const withKey = template("guard_with_key", textWithKey, tables);
  const withoutKey = template("guard", textWithoutKey, tables);
  return async (executor, { id, leaseVersion, hasKey, result }) => {
    const prepared = hasKey ? withKey : withoutKey;
    const [row] = await executor.run(
      prepared.bind({ id, version: leaseVersion, result, processed_keys_ms: processedKeysMs }),
    );
    if (row === undefined) return { kind: "lost" };
    if (row["recorded"] === false) return { kind: "already_processed" };
    // Neither yes nor no: a driver that renames or parses differently must not pass for an answer.
    if (row["recorded"] !== true)
      throw new TypeError("The guard of commit gave an answer that cannot be read.");
    return { kind: "held", transactionId: String(row["transaction"]) };
  };
}
