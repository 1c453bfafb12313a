import { sql } from "drizzle-orm";
import {
  bigint,
  check,
  index,
  integer,
  jsonb,
  type pgTable,
  smallint,
  text,
  uniqueIndex,
} from "drizzle-orm/pg-core";
import { JOB_STATES, type JobOutcome, type JobState } from "./job-states.js";
import {
  type BigInt53,
  type Bytes,
  bytes,
  type HasDefault,
  type Identity,
  type Instant,
  type Int,
  instant,
  type Json,
  type NotNull,
  type PrimaryKey,
  type SmallInt,
  type Text,
} from "./portable-columns.js";

/** How one attempt of a job ended that did not end well, as the row keeps it. */
export interface StoredError {
  readonly attempt: number;
  /** ISO 8601, by the database's clock. */
  readonly at: string;
  /** The error's code, where it has one. */
  readonly code?: string | null;
  readonly name: string;
  readonly message: string;
  readonly stack?: string | null;
}

/** The columns of the jobs table, in terms of the app's own drizzle-orm. */
export type QueueJobsColumns = {
  id: PrimaryKey<Identity<BigInt53>>;
  availableAt: HasDefault<NotNull<Instant>>;
  createdAt: HasDefault<NotNull<Instant>>;
  maxAttempts: HasDefault<NotNull<Int>>;
  payloadVersion: HasDefault<NotNull<Int>>;
  priority: HasDefault<NotNull<SmallInt>>;
  blockers: HasDefault<NotNull<SmallInt>>;
  queue: NotNull<Text>;
  name: NotNull<Text>;
  payload: NotNull<Json>;
  idempotencyKey: Text;
  inputHash: Bytes;
  orderingKey: Text;
  orderingSequence: BigInt53;
  parentId: BigInt53;
  traceContext: Json;
  cancelRequestedAt: Instant;
  leaseVersion: HasDefault<NotNull<Int>>;
  attempts: HasDefault<NotNull<Int>>;
  expiredLeases: HasDefault<NotNull<SmallInt>>;
  status: HasDefault<NotNull<Text<JobState>>>;
  leaseUntil: Instant;
  lockedBy: Text;
  startedAt: Instant;
  finishedAt: Instant;
  outcome: Text<JobOutcome>;
  lastError: Text;
  errorHistory: Json<StoredError[]>;
  result: Json;
};

/** The jobs table. */
export type QueueJobsTable<Name extends string = string> = ReturnType<
  typeof pgTable<Name, QueueJobsColumns>
>;

const states = JOB_STATES.map((state) => `'${state}'`).join(", ");

/**
 * Defines the jobs table.
 *
 * A claim, renewal or release changes `status`, `lease_until`, `lease_version`,
 * `locked_by`, `attempts`, `expired_leases` and `started_at`. None of them may be
 * a key or the predicate of an index: then these updates are HOT, cost half the
 * WAL and leave no dead index entries behind.
 */
export function defineJobsTable<Name extends string>(
  table: typeof pgTable,
  tableName: Name,
): QueueJobsTable<Name> {
  return table(tableName, jobsColumns(), (job) => [
    // Finds work. Ascending throughout: "desc" would be emitted as "nulls last",
    // which an "order by … desc" cannot use. `id` breaks ties first in, first out.
    index(`${tableName}_ready_idx`)
      .on(job.queue, job.priority, job.availableAt, job.id)
      .where(sql`finished_at is null and blockers = 0`),
    // Retention and lists. On `outcome`, not `status`: an index on `status` would
    // be touched by each claim, whatever its predicate.
    index(`${tableName}_outcome_idx`)
      .on(job.outcome, job.finishedAt, job.id)
      .where(sql`finished_at is not null`),
    uniqueIndex(`${tableName}_name_key_unique`)
      .on(job.name, job.idempotencyKey)
      .where(sql`idempotency_key is not null`),
    ...jobsChecks(tableName),
  ]) as unknown as QueueJobsTable<Name>;
}

/**
 * In the order that they have in a row. What is written once comes first, what
 * each claim changes stands together behind it: the write-ahead log of an update
 * holds a row from its first changed byte to its last, so a payload between two
 * changed columns would be logged again with every claim.
 */
function jobsColumns() {
  return {
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    // The enqueue writes statement_timestamp(): now() is the start of the caller's
    // transaction, which may be long ago.
    availableAt: instant("available_at").notNull().defaultNow(),
    createdAt: instant("created_at").notNull().defaultNow(),
    maxAttempts: integer("max_attempts").notNull().default(10),
    payloadVersion: integer("payload_version").notNull().default(1),
    // Smaller runs first.
    priority: smallint("priority").notNull().default(5),
    // What the job waits for beside time, as bits: 1 an earlier job of its ordering
    // key, 2 a slot, 4 a dependency. 0 is free.
    blockers: smallint("blockers").notNull().default(0),
    queue: text("queue").notNull(),
    name: text("name").notNull(),
    payload: jsonb("payload").notNull(),
    idempotencyKey: text("idempotency_key"),
    // sha256 of the input as canonical JSON: tells an honest repeat of a key from a conflict.
    inputHash: bytes("input_hash"),
    orderingKey: text("ordering_key"),
    orderingSequence: bigint("ordering_sequence", { mode: "number" }),
    // No foreign key: a parent may be pruned before its children.
    parentId: bigint("parent_id", { mode: "number" }),
    traceContext: jsonb("trace_context"),
    cancelRequestedAt: instant("cancel_requested_at"),
    // The fencing token: rises with each claim and never falls, over replays too.
    leaseVersion: integer("lease_version").notNull().default(0),
    // Counted at the claim, so that a crash counts.
    attempts: integer("attempts").notNull().default(0),
    // How often a lease of this job ran out: a job that kills its process shows here.
    expiredLeases: smallint("expired_leases").notNull().default(0),
    status: text("status").$type<JobState>().notNull().default("queued"),
    leaseUntil: instant("lease_until"),
    // The claiming worker: `host:pid:random`.
    lockedBy: text("locked_by"),
    startedAt: instant("started_at"),
    finishedAt: instant("finished_at"),
    // The final status once there is one, so that indexes can do without `status`.
    outcome: text("outcome").$type<JobOutcome>(),
    lastError: text("last_error"),
    errorHistory: jsonb("error_history").$type<StoredError[]>(),
    result: jsonb("result"),
  };
}

/** The rules of a job's states, held by the database whoever writes. Later releases may only add to them. */
function jobsChecks(tableName: string): ReturnType<typeof check>[] {
  const rule = (name: string, text: string) => check(`${tableName}_${name}_check`, sql.raw(text));
  return [
    rule("status", `status in (${states})`),
    rule("outcome_final", "(status in ('done', 'failed', 'cancelled')) = (outcome is not null)"),
    rule("outcome_status", "outcome is null or outcome = status"),
    rule("finished_at", "(finished_at is null) = (outcome is null)"),
    rule("lease_until", "(status = 'running') = (lease_until is not null)"),
    rule("attempts", "attempts >= 0 and attempts <= max_attempts"),
    rule("max_attempts", "max_attempts >= 1"),
    rule("priority", "priority >= 0 and priority <= 9"),
    rule("blockers", "blockers >= 0 and blockers <= 7"),
  ];
}
