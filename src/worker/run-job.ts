import { isAttemptError, isQueueError } from "../errors.js";
import { attemptEventError, type QueueEvent } from "../instrumentation/instrumentation.js";
import { parseResult, parseStored } from "../registry/parse-payload.js";
import { monotonicMs } from "./clock.js";
import type { CommitJob } from "./commit.js";
import type { HandlerContext, HandlerJob } from "./handlers.js";
import { attemptError, eventAttempt, type HeldJob, signalOf } from "./held-job.js";
import { type Outcome, outcomeOf } from "./outcome.js";

export interface RunJobOptions {
  readonly handlers: Readonly<Record<string, (context: never) => unknown>>;
  readonly commit: CommitJob;
  /** The size limit of what a handler returns, in bytes. */
  readonly maxResultBytes: number;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** Runs one attempt to its end and tells how it ended; never rejects. */
export type RunJob = (held: HeldJob) => Promise<Outcome>;

/** Creates the way of a job through its handler. */
export function createRunJob(options: RunJobOptions): RunJob {
  return async (held) => {
    held.phase = "running";
    held.startedAtMs = monotonicMs();
    options.emit?.({ type: "job.started", ...eventAttempt(held) });
    const commits: Promise<unknown>[] = [];
    const commit = (effect: (tx: never) => unknown): Promise<unknown> => {
      const running = options.commit(held, effect);
      commits.push(running);
      // Its error is told below; unhandled until then, it would end the process.
      running.catch(() => undefined);
      return running;
    };
    const reportLate = (error: unknown): void =>
      options.emit?.({
        type: "handler.errored_after_commit",
        ...eventAttempt(held),
        error: attemptEventError(error),
      });
    try {
      const payload = readPayload(held);
      const returned = await callHandler(options, held, payload, commit);
      // A commit that nobody awaited decides about the job all the same.
      const errors = await errorsOf(commits);
      if (held.commit === "committed") {
        for (const error of errors.filter(isSecondCommit)) reportLate(error);
        return { kind: "committed" };
      }
      if (errors.length > 0) throw errors.findLast((error) => !isSecondCommit(error)) ?? errors[0];
      return {
        kind: "done",
        result: resultText(held, returned, options.maxResultBytes),
        by: "handler",
      };
    } catch (error) {
      await Promise.allSettled(commits);
      if (held.commit === "committed") reportLate(error);
      return outcomeOf(error, held);
    }
  };
}

/** Waits for commits, whichever way they end, and gives the errors of those that failed. */
async function errorsOf(commits: readonly Promise<unknown>[]): Promise<unknown[]> {
  if (commits.length === 0) return [];
  const results = await Promise.allSettled(commits);
  return results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
}

const isSecondCommit = (error: unknown): boolean => isAttemptError(error, "COMMITTED_TWICE");

function readPayload(held: HeldJob): unknown {
  const stored = parseStored(held.definition, JSON.parse(held.job.payload));
  if (stored.ok) return stored.output;
  const issues = stored.issues
    .map(({ path, message }) => `${path.join(".") || "payload"}: ${message}`)
    .join("; ");
  throw attemptError(
    held,
    "STORED_PAYLOAD_INVALID",
    `the stored payload does not fit its schema (${issues.slice(0, 1_000)}). Mend the row or the schema, then requeue the job.`,
  );
}

async function callHandler(
  { handlers }: RunJobOptions,
  held: HeldJob,
  payload: unknown,
  commit: (effect: (tx: never) => unknown) => Promise<unknown>,
): Promise<unknown> {
  const handler = handlers[held.job.name];
  // A claim asks for names that have a handler only.
  if (handler === undefined) throw new TypeError(`No handler for job "${held.job.name}".`);
  const context = {
    payload,
    job: describe(held),
    commit,
    get signal() {
      return signalOf(held);
    },
  } as HandlerContext<never, string, never>;
  return await handler(context as never);
}

function describe({ job }: HeldJob): HandlerJob {
  return {
    id: job.id,
    name: job.name,
    queue: job.queue,
    priority: job.priority,
    attempt: job.attempts,
    maxAttempts: job.maxAttempts,
    isLastAttempt: job.attempts >= job.maxAttempts,
    idempotencyKey: job.idempotencyKey,
    createdAt: new Date(job.createdMs),
  };
}

/**
 * Checks a handler's result against its schema and gives the JSON to store.
 *
 * @throws {AttemptError} `RESULT_INVALID` when it does not fit: the attempt errors.
 */
export function resultText(held: HeldJob, result: unknown, maxBytes: number): string | null {
  try {
    return parseResult(held.job.name, held.definition, result, maxBytes);
  } catch (error) {
    if (!isQueueError(error)) throw error;
    throw attemptError(held, "RESULT_INVALID", error.message, error);
  }
}
