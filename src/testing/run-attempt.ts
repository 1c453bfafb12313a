import type { AttemptErrorCode } from "../errors.js";
import type { EventError, QueueEvent } from "../instrumentation/instrumentation.js";
import type { ClaimAnswer, ClaimedJob } from "../queries/claimed-row.js";
import type { PgDatabase } from "../queries/transaction.js";
import type { JobDefinition, JobMap } from "../registry/job-definition.js";
import { invalidOption } from "../registry/option-checks.js";
import { after, monotonicMs } from "../worker/clock.js";
import type { HeldJob } from "../worker/held-job.js";
import { createHoldings, type Holdings } from "../worker/holdings.js";
import type { Outcome } from "../worker/outcome.js";
import { createRunJob } from "../worker/run-job.js";
import { ABORT_MS } from "../worker/stop-worker.js";
import { commitInTest } from "./commit-in-test.js";
import { timedOut } from "./timed-out.js";

/** What a worker tells a handler as the reason to end: the code of `signal.reason`. */
export type AbortCode = Extract<
  AttemptErrorCode,
  "ATTEMPT_TIMED_OUT" | "JOB_CANCELLED" | "LEASE_LOST" | "WORKER_STOPPING"
>;

const ABORT_CODES: readonly unknown[] = [
  "ATTEMPT_TIMED_OUT",
  "JOB_CANCELLED",
  "LEASE_LOST",
  "WORKER_STOPPING",
] satisfies readonly AbortCode[];

/** @throws {QueueError} `INVALID_OPTION` when it is none. */
export function checkAbortCode(given: unknown): void {
  if (!ABORT_CODES.includes(given))
    throw invalidOption(
      "runHandler(): abort",
      `one of ${ABORT_CODES.join(", ")}, or a promise of one`,
      given,
    );
}

/** One attempt at a job that has no row. */
export interface Attempt {
  readonly job: ClaimedJob;
  readonly jobs: JobMap;
  readonly definition: JobDefinition;
  readonly handlers: Readonly<Record<string, (context: never) => unknown>>;
  readonly db: PgDatabase | undefined;
  readonly maxResultBytes: number;
  readonly abort: AbortCode | PromiseLike<AbortCode> | undefined;
}

/** How it ended. */
export interface AttemptEnd {
  readonly outcome: Outcome;
  /** What `commit` would have stored, as JSON text. */
  readonly committedResult: string | null;
  readonly errorAfterCommit: EventError | undefined;
}

/**
 * Runs an attempt by the worker's own parts; only its claim and its settling are left out.
 *
 * @throws {QueueError} `TEST_TIMED_OUT` when the handler goes on after its abort,
 *   `INVALID_OPTION` when it calls `commit` and there is no database, or a fake that is none.
 */
export async function runAttempt(attempt: Attempt): Promise<AttemptEnd> {
  const { job, handlers, maxResultBytes } = attempt;
  const events: QueueEvent[] = [];
  const emit = (event: QueueEvent): void => void events.push(event);
  const { commit, result, misuse } = commitInTest(attempt.db, maxResultBytes);
  const holdings = createHoldings({
    concurrency: 1,
    shortestLeaseMs: attempt.definition.leaseMs,
    retention: "keep",
    jobs: attempt.jobs,
    workerId: "test",
    runJob: createRunJob({ handlers, commit, maxResultBytes, emit }),
    yieldsTo: () => undefined,
    isPaused: () => false,
    onChange: () => undefined,
    onClaimed: () => undefined,
    emit,
  });
  holdings.take(claimOf(job), monotonicMs(), 1);
  await untilEnded(attempt, holdings);
  const wrong = misuse();
  if (wrong !== undefined) throw wrong;
  return {
    outcome: outcomeOf(events, holdings),
    committedResult: result(),
    errorAfterCommit: events.find((event) => event.type === "handler.errored_after_commit")?.error,
  };
}

const claimOf = (job: ClaimedJob): ClaimAnswer => ({
  jobs: [job],
  ended: [],
  nowUs: job.createdMs * 1_000,
  tookMs: 0,
  nextDueUs: null,
  hasSwept: false,
  isFull: false,
  passedOver: undefined,
  leavesDue: false,
  paused: [],
});

/** Waits for the handler, which is told to end by the test or once its time is up. */
async function untilEnded({ abort, definition, job }: Attempt, holdings: Holdings): Promise<void> {
  const [held] = holdings.running();
  // It runs from the claim on.
  if (held === undefined) return;
  const callOff: (() => void)[] = [];
  let isOver = false;
  const overdue = new Promise<never>((_, reject) => {
    const tell = (code: AbortCode): void => {
      checkAbortCode(code);
      if (isOver) return;
      abortAs(code, holdings, held);
      callOff.push(after(ABORT_MS, () => reject(stillRuns(job.name, code))));
    };
    if (typeof abort === "string") tell(abort);
    else abort?.then(tell).then(undefined, reject);
    if (definition.timeoutMs !== null)
      callOff.push(after(definition.timeoutMs, () => tell("ATTEMPT_TIMED_OUT")));
  });
  try {
    await Promise.race([holdings.idle(), overdue]);
  } finally {
    isOver = true;
    for (const call of callOff) call();
  }
}

function abortAs(code: AbortCode, holdings: Holdings, held: HeldJob): void {
  switch (code) {
    case "ATTEMPT_TIMED_OUT":
      return holdings.timeOut(held);
    case "JOB_CANCELLED":
      return holdings.cancel(held);
    case "LEASE_LOST":
      return holdings.lose(held, "renewal");
    case "WORKER_STOPPING":
      return holdings.abortAll();
  }
}

const stillRuns = (name: string, code: AbortCode): Error =>
  timedOut(
    `runHandler(): the handler of job "${name}" still runs ${ABORT_MS} ms after its signal was aborted (${code}). Pass the signal on to whatever it waits for.`,
  );

function outcomeOf(events: readonly QueueEvent[], { settles }: Holdings): Outcome {
  // A commit is told at once, since there is nothing left to settle; it weighs more than a lease that seemed lost.
  if (events.some(({ type }) => type === "job.done")) return { kind: "committed" };
  if (events.some(({ type }) => type === "lease.lost")) return { kind: "lost" };
  const [settling] = settles.take(monotonicMs(), true) ?? [];
  if (settling === undefined) throw new TypeError("An attempt ended without an outcome.");
  return settling.outcome;
}
