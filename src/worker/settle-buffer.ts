import type { QueueEvent } from "../instrumentation/instrumentation.js";
import type { SettleAnswer, SettleItem } from "../queries/settle-jobs.js";
import { jittered, monotonicMs } from "./clock.js";
import type { HeldJob } from "./held-job.js";
import type { Outcome } from "./outcome.js";
import { type DoneRetention, settledEvent, settleItemOf } from "./settlement.js";
import { isDataError, isForeignKeyViolation, sqlState } from "./sql-errors.js";

/**
 * Invariant: an outcome is written under the lease version that it was reached
 * with, or not at all; and it is dropped only once it is written, or once the
 * lease that allowed it is lost, which is then reported.
 *
 * Outcomes gather here while a statement is in flight and leave together.
 */

/** One outcome on its way to the database. */
export interface Settling {
  readonly held: HeldJob;
  outcome: Exclude<Outcome, { kind: "lost" }>;
  item: SettleItem;
  /** An earlier statement with it was left without an answer: it may have been written. */
  isResent: boolean;
  /** The server refused what it said, so it says less now. */
  isReduced: boolean;
  notBeforeMs: number;
}

/** Outcomes that leave in one statement. */
export type SettleBatch = readonly Settling[];

export interface SettleBuffer {
  /** Takes the outcome of a held job. */
  add(held: HeldJob, outcome: Exclude<Outcome, { kind: "lost" }>): void;
  /** Takes what is to be sent now; `hurries` when a statement is sent anyhow. */
  take(nowMs: number, hurries: boolean): SettleBatch | undefined;
  /** When there is something to send, on the local clock. */
  nextMs(): number;
  answered(batch: SettleBatch, unsettled: ReadonlyMap<number, SettleAnswer>): void;
  /**
   * Takes back a batch whose statement errored; `isAlone` when nothing else travelled in it.
   *
   * @returns Whether it is worth sending on at once: the batch was set apart, split or reduced.
   */
  errored(batch: SettleBatch, error: unknown, isAlone: boolean): boolean;
  /** Whether a batch that the server refused is to be sent in parts: nothing else travels with them. */
  hasRefused(): boolean;
  size(): number;
}

/** How long an outcome waits for others, or after an answer for a claim to travel with, in milliseconds. */
const GATHER_MS = 2;
/** The most outcomes in one statement. */
const MAX_BATCH = 500;
/** How long a locked row is left alone before it is tried again, in milliseconds. */
const BUSY_MS = 25;

export interface SettleBufferOptions {
  readonly retention: DoneRetention;
  /** Whether others are about to end: an outcome then waits for them. */
  readonly isBusy: () => boolean;
  /** The job has left this worker's hands. */
  readonly onSettled: (held: HeldJob) => void;
  /** The job is another's. */
  readonly onLost: (held: HeldJob) => void;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** Creates an empty buffer. */
export function createSettleBuffer(options: SettleBufferOptions): SettleBuffer {
  const { retention, isBusy, onSettled, onLost, emit } = options;
  let waiting: Settling[] = [];
  /** Batches that the server refused, cut in half until the bad row stands alone. */
  const split: Settling[][] = [];
  let gatheringSinceMs = 0;

  const finish = ({ held, outcome }: Settling): void => {
    if (outcome.kind === "committed") return;
    emit?.(settledEvent(held, outcome));
    onSettled(held);
  };

  /** The row has ended at this version: by our own commit, by an earlier sending, or by an operator. */
  const recognise = (settling: Settling): void => {
    const { held } = settling;
    if (held.commit === "committed" || held.commit === "unknown")
      finish({ ...settling, outcome: DONE });
    else if (settling.isResent) finish(settling);
    else lose(settling);
  };

  const lose = ({ held, outcome }: Settling): void => {
    if (outcome.kind === "committed") return;
    onLost(held);
  };

  const answer = (settling: Settling, answered: SettleAnswer | undefined): void => {
    switch (answered) {
      case undefined:
        return finish(settling);
      case "busy":
        settling.notBeforeMs = monotonicMs() + jittered(BUSY_MS);
        waiting.push(settling);
        return;
      case "settled":
      case "gone":
        return recognise(settling);
      case "lost":
        return lose(settling);
      case "cancelled":
        return finish({ ...settling, outcome: { kind: "cancel" } });
    }
  };

  const nextMs = (): number => {
    if (split.length > 0) return 0;
    if (waiting.length === 0) return Number.POSITIVE_INFINITY;
    const earliest = waiting.reduce(
      (ms, settling) => Math.min(ms, settling.notBeforeMs),
      Number.POSITIVE_INFINITY,
    );
    const gathers = waiting.length < MAX_BATCH && isBusy();
    return Math.max(earliest, gathers ? gatheringSinceMs + GATHER_MS : 0);
  };

  return {
    add(held, outcome) {
      if (outcome.kind === "committed") {
        emit?.(settledEvent(held, outcome));
        onSettled(held);
      }
      const item = settleItemOf(held, outcome, retention);
      if (item === undefined) return;
      if (waiting.length === 0) gatheringSinceMs = monotonicMs();
      waiting.push({ held, outcome, item, isResent: false, isReduced: false, notBeforeMs: 0 });
    },
    take(nowMs, hurries) {
      for (let part = split.shift(); part !== undefined; part = split.shift()) {
        const refused = stillOurs(part);
        if (refused.length > 0) return refused;
      }
      if (!hurries && nowMs < nextMs()) return undefined;
      const batch: Settling[] = [];
      const later: Settling[] = [];
      for (const settling of stillOurs(waiting)) {
        (batch.length < MAX_BATCH && settling.notBeforeMs <= nowMs ? batch : later).push(settling);
      }
      waiting = later;
      gatheringSinceMs = nowMs;
      return batch.length === 0 ? undefined : batch;
    },
    nextMs,
    answered(batch, unsettled) {
      gatheringSinceMs = monotonicMs();
      for (const settling of batch) answer(settling, unsettled.get(settling.held.job.id));
    },
    errored(batch, error, isAlone) {
      if (!isDataError(error)) {
        for (const settling of batch) settling.isResent = true;
        waiting.unshift(...batch);
        return false;
      }
      if (!isAlone) {
        // What was refused may have been the claim: that must not fail a job.
        split.push([...batch]);
        return true;
      }
      const [only] = batch;
      if (batch.length === 1 && only !== undefined) return reduce(only, error);
      const half = Math.ceil(batch.length / 2);
      split.push(batch.slice(0, half), batch.slice(half));
      return true;
    },
    hasRefused: () => split.length > 0,
    size: () => waiting.length + split.reduce((sum, batch) => sum + batch.length, 0),
  };

  function reduce(settling: Settling, error: unknown): boolean {
    const { held, outcome } = settling;
    if (outcome.kind === "committed") return true;
    if (settling.isReduced) {
      lose(settling);
      return true;
    }
    settling.isReduced = true;
    const mayStay = outcome.kind === "done" && isForeignKeyViolation(error);
    if (!mayStay) settling.outcome = { kind: "fail", error: refusal(error) };
    settling.item = settleItemOf(held, settling.outcome, "keep") ?? settling.item;
    split.push([settling]);
    return true;
  }
}

const DONE: Settling["outcome"] = { kind: "done", result: null, by: "handler" };

/** Leaves out what was lost while it waited. */
function stillOurs(settlings: readonly Settling[]): Settling[] {
  return settlings.filter(
    ({ held, outcome }) => held.phase !== "over" || outcome.kind === "committed",
  );
}

/** Tells of an outcome that the server would not store, such as one that a trigger of the app refuses. */
function refusal(error: unknown): unknown {
  const message = `The outcome could not be stored (SQLSTATE ${sqlState(error) ?? "unknown"}).`;
  return { name: "QueueError", code: "OUTCOME_REFUSED", message };
}
