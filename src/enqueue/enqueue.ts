import { QueueError } from "../errors.js";
import type { QueueEvent } from "../instrumentation/instrumentation.js";
import type { InsertedJob, NewJob } from "../queries/enqueue-parts.js";
import { drizzleExecutor, type PgExecutor } from "../queries/executor.js";
import { isTransaction, type RequireTx } from "../queries/transaction.js";
import type { JobMap, PayloadInput } from "../registry/job-definition.js";
import { invalidOption, refuseUnknownOptions } from "../registry/option-checks.js";
import { findDuplicates } from "./batch-duplicates.js";
import type { EnqueueOptions } from "./enqueue-options.js";
import { type EnqueueStatements, insertOrFind, insertOrFindMany } from "./insert-or-find.js";
import { type Admission, prepareJob } from "./prepare-job.js";

/** What an enqueue answers: the new job, or the one that had its idempotency key before. */
export interface Enqueued<N extends string = string> {
  readonly id: number;
  readonly name: N;
  /** False when the key was taken: nothing was inserted. */
  readonly created: boolean;
  /** `queued` for a new job; else where the first one is. */
  readonly status: InsertedJob["status"];
}

type IsUnion<T, U = T> = [T] extends [never]
  ? false
  : T extends unknown
    ? [U] extends [T]
      ? false
      : true
    : never;

/** The payload of one job: with a union of names, that of any of them would be accepted. Behind `any`, only the check at run time is left. */
export type PayloadOf<M extends JobMap, N extends keyof M> =
  IsUnion<N> extends true
    ? { readonly __error: "drizzle-queue: narrow the job name to one job first" }
    : PayloadInput<M[N]>;

/** One job of {@link Enqueue.enqueueMany}. */
export type EnqueueItem<M extends JobMap> = {
  [N in keyof M & string]: {
    readonly name: N;
    readonly payload: PayloadInput<M[N]>;
    readonly options?: EnqueueOptions | undefined;
  };
}[keyof M & string];

/** The ways to enqueue; each can be taken out of the queue object and used alone. */
export interface Enqueue<M extends JobMap> {
  /**
   * Adds a job as part of the caller's transaction.
   *
   * The job becomes visible to workers when `tx` commits and never exists if it
   * rolls back. Everything is checked before anything is sent, so a refusal
   * leaves `tx` usable. With an idempotency key, a second call answers the first job.
   *
   * @throws {QueueError} `INVALID_PAYLOAD`, `INVALID_OPTION` or `UNKNOWN_JOB` before any SQL;
   *   `NOT_A_TRANSACTION` when `tx` is a database; `IDEMPOTENCY_CONFLICT` when the key
   *   belongs to another input; `KEY_CONTENDED`, very rarely, when it is worth another try.
   *   Always as a rejection. Errors of the database pass through.
   * @example
   * await db.transaction(async (tx) => {
   *   await tx.insert(reports).values({ id });
   *   await queue.enqueue(tx, "report", { reportId: id });
   * });
   */
  readonly enqueue: <T extends PgExecutor, N extends keyof M & string>(
    tx: T & RequireTx<T>,
    name: N,
    payload: PayloadOf<M, N>,
    options?: EnqueueOptions,
  ) => Promise<Enqueued<N>>;

  /**
   * Adds any number of jobs in one statement; answers in their order.
   *
   * All or none: one invalid job, or one key that belongs to another input, and
   * nothing is inserted. Jobs of one batch that share a key are one job.
   *
   * @throws {QueueError} as `enqueue` does; `issues` begin with the index of the job.
   */
  readonly enqueueMany: <T extends PgExecutor>(
    tx: T & RequireTx<T>,
    items: readonly EnqueueItem<M>[],
  ) => Promise<readonly Enqueued<keyof M & string>[]>;

  /**
   * Adds a job outside of a transaction, on purpose: it is committed at once.
   *
   * @throws {QueueError} as `enqueue` does, but takes a database too.
   */
  readonly enqueueNow: <N extends keyof M & string>(
    db: PgExecutor,
    name: N,
    payload: PayloadOf<M, N>,
    options?: EnqueueOptions,
  ) => Promise<Enqueued<N>>;
}

/** What the enqueue functions need. */
export interface EnqueueParts extends Admission {
  readonly statements: EnqueueStatements;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** The most JSON text that one statement takes: PostgreSQL's jsonb ends at 256 MB. */
const MAX_BATCH_LENGTH = 64 * 1024 * 1024;

/**
 * Makes the enqueue functions.
 *
 * They are async so that whatever is thrown is a rejection, and await nothing
 * before their statement is sent: one await, and it could land in another
 * request's transaction.
 */
export function createEnqueue<M extends JobMap>(parts: EnqueueParts): Enqueue<M> {
  const functions = {
    async enqueue(tx: PgExecutor, name: string, payload: unknown, options?: EnqueueOptions) {
      requireTransaction("enqueue", tx);
      return insertOne(parts, tx, prepareJob(parts, name, payload, options));
    },
    async enqueueMany(tx: PgExecutor, items: readonly EnqueueItem<JobMap>[]) {
      requireTransaction("enqueueMany", tx);
      return insertMany(parts, tx, prepareBatch(parts, items));
    },
    async enqueueNow(db: PgExecutor, name: string, payload: unknown, options?: EnqueueOptions) {
      if (typeof (db as Partial<PgExecutor> | undefined)?.execute !== "function") {
        throw invalidOption("enqueueNow(): db", "a Drizzle database or transaction", db);
      }
      return insertOne(parts, db, prepareJob(parts, name, payload, options));
    },
  };
  return functions as unknown as Enqueue<M>;
}

async function insertOne(parts: EnqueueParts, db: PgExecutor, job: NewJob): Promise<Enqueued> {
  const inserted = await insertOrFind(drizzleExecutor(db), parts.statements, job);
  if (inserted.conflict)
    throw new QueueError(
      "IDEMPOTENCY_CONFLICT",
      `${keyTaken(job.name)}, that of job ${inserted.id}. Send that input, or another key.`,
    );
  return report(parts, job, inserted, inserted.created);
}

async function insertMany(
  parts: EnqueueParts,
  tx: PgExecutor,
  jobs: readonly NewJob[],
): Promise<readonly Enqueued[]> {
  const { unique, placeOf, conflicts } = findDuplicates(jobs);
  refuseConflicts(jobs, conflicts);
  const answers = await insertOrFindMany(drizzleExecutor(tx), parts.statements, unique);
  refuseConflicts(
    jobs,
    placeOf.flatMap((place, index) => (answers[place]?.conflict ? [index] : [])),
  );
  return jobs.map((job, index) => {
    const place = placeOf[index] ?? -1;
    // Without a conflict every place has its answer.
    const answer = answers[place] as InsertedJob;
    return report(parts, job, answer, answer.created && unique[place] === job);
  });
}

function requireTransaction(who: string, tx: unknown): void {
  if (isTransaction(tx)) return;
  throw new QueueError(
    "NOT_A_TRANSACTION",
    `${who}() needs the \`tx\` of db.transaction(async (tx) => …). Outside of a transaction, call enqueueNow(db, …).`,
  );
}

function prepareBatch(
  parts: EnqueueParts,
  items: readonly EnqueueItem<JobMap>[],
): readonly NewJob[] {
  if (!Array.isArray(items)) throw invalidOption("enqueueMany(): jobs", "an array", items);
  let length = 0;
  // Not items.map(), which would skip holes.
  return Array.from(items, (item: EnqueueItem<JobMap>, index) => {
    const job = inBatch(index, () => {
      refuseUnknownOptions("job", item, ["name", "payload", "options"]);
      return prepareJob(parts, item.name, item.payload, item.options);
    });
    length += job.payload.length + (job.input?.length ?? 0);
    if (length <= MAX_BATCH_LENGTH) return job;
    throw new QueueError(
      "INVALID_PAYLOAD",
      `enqueueMany(), job ${index}: the batch has more than ${MAX_BATCH_LENGTH} characters. Split it.`,
    );
  });
}

/** Says which job of a batch was refused. */
function inBatch(index: number, prepare: () => NewJob): NewJob {
  try {
    return prepare();
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    const issues = error.issues.map((issue) => ({ ...issue, path: [index, ...issue.path] }));
    throw new QueueError(error.code, `enqueueMany(), job ${index}: ${error.message}`, {
      issues,
      ...("cause" in error && { cause: error.cause }),
    });
  }
}

const keyTaken = (name: string | undefined): string =>
  `Job "${name}": its idempotency key belongs to another input`;

function refuseConflicts(jobs: readonly NewJob[], indexes: readonly number[]): void {
  const issues = indexes.map((index) => ({
    path: [index],
    message: keyTaken(jobs[index]?.name),
  }));
  const [first] = issues;
  if (first === undefined) return;
  const more = issues.length > 1 ? `, as for ${issues.length - 1} more` : "";
  throw new QueueError(
    "IDEMPOTENCY_CONFLICT",
    `enqueueMany(), job ${first.path[0]}: ${first.message}${more}. Nothing was inserted.`,
    { issues },
  );
}

function report(
  { emit }: EnqueueParts,
  { name, queue }: NewJob,
  { id, status }: InsertedJob,
  created: boolean,
): Enqueued {
  emit?.({ type: "job.enqueued", jobId: id, jobName: name, queue, created });
  return { id, name, created, status };
}
