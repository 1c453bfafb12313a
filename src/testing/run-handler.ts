import type { PayloadOf } from "../enqueue/enqueue.js";
import type { EnqueueOptions } from "../enqueue/enqueue-options.js";
import { prepareJob } from "../enqueue/prepare-job.js";
import type { ClaimedJob } from "../queries/claimed-row.js";
import type { PgDatabase, TxOf } from "../queries/transaction.js";
import { definitionOf } from "../registry/define-jobs.js";
import type { JobMap } from "../registry/job-definition.js";
import {
  checkInteger,
  invalidOption,
  isObject,
  refuseUnknownOptions,
} from "../registry/option-checks.js";
import type { WorkerQueue } from "../worker/create-worker.js";
import { checkHandlers, type Handlers } from "../worker/handlers.js";
import { type HandlerEnd, handlerEnd } from "./handler-end.js";
import { inJsonbOrder } from "./jsonb-order.js";
import { type AbortCode, checkAbortCode, runAttempt } from "./run-attempt.js";

/** What {@link runHandler} takes. */
export interface RunHandlerOptions<
  M extends JobMap,
  N extends keyof M & string,
  DB extends PgDatabase | undefined,
> {
  readonly queue: WorkerQueue<M>;
  /** Which job. */
  readonly name: N;
  /** As `enqueue` takes it: checked, stored and parsed again before the handler sees it. */
  readonly payload: PayloadOf<M, N>;
  /** What else `enqueue` could be told of the job. @default what its definition says */
  readonly options?: EnqueueOptions | undefined;
  /** The app's handlers, or an object with this one: `{ report }`. Others are left aside. */
  readonly handlers: Handlers<M, TxOf<DB>, NoInfer<N>>;
  /**
   * Where the effects of `commit` go: a database, where they are committed, or a transaction
   * of the test, where they are a savepoint. @default none: the handler must not call `commit`
   */
  readonly db?: DB | undefined;
  /** Which attempt this is: 1 to the job's `maxAttempts`. @default 1 */
  readonly attempt?: number | undefined;
  /**
   * Aborts the handler's signal for this reason, as soon as it has started; with a promise,
   * once that has resolved. A job's own `timeoutMs` aborts it too. @default not at all
   */
  readonly abort?: AbortCode | PromiseLike<AbortCode> | undefined;
}

const OPTIONS = [
  "queue",
  "name",
  "payload",
  "options",
  "handlers",
  "db",
  "attempt",
  "abort",
] as const;

/**
 * Runs one attempt of a job's handler without a row and without a worker, and tells how it ends.
 *
 * The handler is given what a worker would give it, and its end is judged by the worker's own
 * code: what it threw is not thrown here, but part of the answer. Resolves once the handler has ended.
 *
 * @throws {QueueError} As a rejection: what `enqueue` says of the name, the payload and the options;
 *   `INVALID_OPTION` also when the handler calls `commit` and `db` was left out, or is a fake
 *   that does not run the effect exactly once;
 *   `TEST_TIMED_OUT` when the handler still runs a second after its signal was aborted.
 * @example
 * import { runHandler } from "drizzle-queue/testing";
 *
 * const end = await runHandler({ queue, db, handlers, name: "report", payload: { reportId } });
 * if (end.kind !== "done") throw new Error(`It ended as ${end.kind}.`);
 */
export async function runHandler<
  M extends JobMap,
  const N extends keyof M & string,
  DB extends PgDatabase | undefined = undefined,
>(options: RunHandlerOptions<M, N, DB>): Promise<HandlerEnd<M[N]>> {
  trapAbort(options?.abort);
  refuseUnknownOptions("runHandler()", options, OPTIONS);
  checkParts(options);
  const { queue, name, attempt = 1, db, abort } = options;
  const definition = definitionOf(queue.jobs, name);
  const prepared = prepareJob(queue, name, options.payload, options.options);
  checkInteger("runHandler(): attempt", attempt, 1, prepared.maxAttempts);
  const end = await runAttempt({
    job: claimed(prepared, attempt),
    jobs: queue.jobs,
    definition,
    handlers: checkHandlers(queue.jobs, [name], options.handlers),
    db,
    maxResultBytes: queue.maxPayloadBytes,
    abort,
  });
  return handlerEnd(name, definition, end) as HandlerEnd<M[N]>;
}

interface Parts {
  readonly queue?: unknown;
  readonly handlers?: unknown;
  readonly db?: unknown;
  readonly abort?: unknown;
}

function checkParts({ queue, handlers, db, abort }: Parts): void {
  if (!isObject(queue) || !isObject(queue["jobs"]))
    throw invalidOption("runHandler(): queue", "made by createQueue()", queue);
  if (!isObject(handlers))
    throw invalidOption("runHandler(): handlers", "an object with the job's handler", handlers);
  const canBegin = db === undefined || (isObject(db) && typeof db["transaction"] === "function");
  if (!canBegin) throw invalidOption("runHandler(): db", "a Drizzle database or transaction", db);
  if (abort !== undefined && !isPromise(abort)) checkAbortCode(abort);
}

const isPromise = (given: unknown): given is PromiseLike<unknown> =>
  isObject(given) && typeof given["then"] === "function";

/** Until the handler runs nobody listens to it, and if another option is wrong nobody ever does. */
function trapAbort(abort: unknown): void {
  if (isPromise(abort)) abort.then(undefined, () => undefined);
}

/** The row that a worker would have claimed. */
function claimed(
  {
    name,
    queue,
    priority,
    maxAttempts,
    idempotencyKey,
    payload,
  }: Pick<ClaimedJob, "name" | "queue" | "priority" | "maxAttempts" | "idempotencyKey" | "payload">,
  attempt: number,
): ClaimedJob {
  const nowMs = Date.now();
  return {
    id: 1,
    name,
    queue,
    priority,
    maxAttempts,
    idempotencyKey,
    payload: inJsonbOrder(payload),
    attempts: attempt,
    leaseVersion: attempt,
    expiredLeases: 0,
    place: { atUs: nowMs * 1_000, id: 1 },
    createdMs: nowMs,
    isProcessed: false,
    isRecovered: false,
  };
}
