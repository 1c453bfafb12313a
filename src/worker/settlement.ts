import { attemptEventError, type QueueEvent } from "../instrumentation/instrumentation.js";
import type { SettleItem, Settlement } from "../queries/settle-jobs.js";
import { monotonicMs } from "./clock.js";
import { eventAttempt, type HeldJob } from "./held-job.js";
import type { Outcome } from "./outcome.js";
import { errorLine, storedError } from "./stored-error.js";

/** What becomes of the row of a job when it is done: it stays for now, or goes at once. */
export type DoneRetention = "keep" | 0;

/** Says in SQL's terms how an attempt ended; nothing for what is written already or may not be written. */
export function settleItemOf(
  held: HeldJob,
  outcome: Outcome,
  retention: DoneRetention,
): SettleItem | undefined {
  const settlement = settlementOf(held, outcome, retention);
  if (settlement === undefined) return undefined;
  return {
    id: held.job.id,
    leaseVersion: held.job.leaseVersion,
    settlement,
    recordsKey:
      outcome.kind === "done" && outcome.by === "handler" && held.job.idempotencyKey !== null,
  };
}

function settlementOf(
  held: HeldJob,
  outcome: Outcome,
  retention: DoneRetention,
): Settlement | undefined {
  switch (outcome.kind) {
    case "done":
      return doneSettlement(outcome.result, retention);
    case "committed":
      return retention === 0 ? { way: "discard" } : undefined;
    case "retry":
      return ended("queued", { ...written(held, outcome.error), delayMs: outcome.delayMs });
    case "fail":
      return ended("failed", written(held, outcome.error));
    case "snooze":
      return ended("queued", { delayMs: outcome.delayMs, isUncounted: true });
    case "release":
      return ended("queued", { isUncounted: true });
    case "cancel":
      return ended("cancelled", {});
    case "lost":
      return undefined;
  }
}

function doneSettlement(result: string | null, retention: DoneRetention): Settlement {
  if (retention === 0) return { way: "remove" };
  return result === null ? { way: "complete" } : ended("done", { result });
}

type End = Extract<Settlement, { way: "end" }>;

/** An end about which only `said` is to be written. */
function ended(status: End["status"], said: Partial<End>): End {
  const nothing = { delayMs: null, isUncounted: false, error: null, errorLine: null, result: null };
  return { way: "end", status, ...nothing, ...said };
}

function written(
  held: HeldJob,
  thrown: unknown,
): { readonly error: string; readonly errorLine: string } {
  const stored = storedError(thrown);
  // "at" is filled in by the server's clock; the key is there so that it comes second.
  return {
    error: JSON.stringify({ attempt: held.job.attempts, at: null, ...stored }),
    errorLine: errorLine(stored),
  };
}

/** The event that tells how an attempt ended, once it is settled. */
export function settledEvent(
  held: HeldJob,
  outcome: Exclude<Outcome, { kind: "lost" }>,
): QueueEvent {
  const attempt = eventAttempt(held);
  switch (outcome.kind) {
    case "done":
    case "committed":
      return {
        type: "job.done",
        ...attempt,
        durationMs: held.startedAtMs === 0 ? 0 : Math.round(monotonicMs() - held.startedAtMs),
        by: outcome.kind === "done" ? outcome.by : "handler",
      };
    case "retry":
      return {
        type: "attempt.errored",
        ...attempt,
        error: attemptEventError(outcome.error),
        retryInMs: Math.round(outcome.delayMs),
      };
    case "fail":
      return { type: "job.failed", ...attempt, error: attemptEventError(outcome.error) };
    case "snooze":
      return { type: "job.snoozed", ...attempt, delayMs: outcome.delayMs };
    case "release":
      return { type: "job.released", ...attempt };
    case "cancel":
      return { type: "job.cancelled", ...attempt, ...lastError(outcome.error) };
  }
}

const lastError = (error: unknown) =>
  error === undefined ? {} : { error: attemptEventError(error) };
