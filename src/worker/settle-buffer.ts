import { eventError, type QueueEvent } from "../instrumentation/instrumentation.js";
import type { SettleAnswer, SettleItem } from "../queries/settle-jobs.js";
import {
  isDataError,
  isForeignKeyViolation,
  isLockTimeout,
  sqlState,
} from "../queries/sql-errors.js";
import { jittered, monotonicMs } from "./clock.js";
import type { HeldJob } from "./held-job.js";
import type { Outcome } from "./outcome.js";
import { type DoneRetention, settledEvent, settleItemOf } from "./settlement.js";

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
  /** The end is near: what waits for a lock is tried now. */
  hurry(): void;
  size(): number;
}

/** How long an outcome waits for others, or after an answer for a claim to travel with, in milliseconds. */
const GATHER_MS = 2;
/** The most outcomes in one statement. */
const MAX_BATCH = 500;
/** The most text in one statement, in characters; one outcome may have more. */
const MAX_LENGTH = 4_000_000;
/** How long a locked row is left alone before it is tried again, in milliseconds. */
const BUSY_MS = 25;
/**
 * How long outcomes that wait for a lock outside of the jobs table are left alone, in milliseconds: each try
 * may hold up all others for as long as the session waits for locks.
 */
const LOCKED_MS = 5_000;

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

/** Somebody had asked for its end, which weighs more than how its attempt ended; an error stays on record. */
const asCancelled = (settling: Settling): Settling => {
  const { outcome } = settling;
  const hasErrored = outcome.kind === "fail" || outcome.kind === "retry";
  return { ...settling, outcome: { kind: "cancel", ...(hasErrored && { error: outcome.error }) } };
};

/** Creates an empty buffer. */
export function createSettleBuffer(options: SettleBufferOptions): SettleBuffer {
  const { retention, isBusy, onSettled, onLost, emit } = options;
  let waiting: Settling[] = [];
  /** Batches that the server refused, cut up until the bad row stands alone. */
  const split: Settling[][] = [];
  /** Outcomes whose rows others hold up by locks that cannot be skipped; one is tried at a time, by itself. */
  const locked: Settling[] = [];
  let lockedNotBeforeMs = 0;
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
      case "was_cancelled":
        return recognise(settling.isResent ? asCancelled(settling) : settling);
      case "cancelled":
        return finish(asCancelled(settling));
    }
  };

  const lockedMs = (): number => (locked.length > 0 ? lockedNotBeforeMs : Number.POSITIVE_INFINITY);

  const nextMs = (): number => {
    if (split.length > 0) return 0;
    if (waiting.length === 0) return lockedMs();
    const earliest = waiting.reduce(
      (ms, settling) => Math.min(ms, settling.notBeforeMs),
      Number.POSITIVE_INFINITY,
    );
    const gathers = waiting.length < MAX_BATCH && isBusy();
    return Math.min(lockedMs(), Math.max(earliest, gathers ? gatheringSinceMs + GATHER_MS : 0));
  };

  /** What goes by itself: part of a batch that was refused, or what waited for a lock. */
  const takeAlone = (nowMs: number): SettleBatch | undefined => {
    for (let part = split.shift(); part !== undefined; part = split.shift()) {
      const refused = stillOurs(part);
      if (refused.length > 0) return refused;
    }
    if (nowMs < lockedMs()) return undefined;
    const tried = stillOurs(locked.splice(0, 1));
    return tried.length > 0 ? tried : undefined;
  };

  /** As many as one statement carries. */
  const takeTogether = (nowMs: number): SettleBatch => {
    const batch: Settling[] = [];
    const later: Settling[] = [];
    let length = 0;
    for (const settling of stillOurs(waiting)) {
      const fits = batch.length < MAX_BATCH && length < MAX_LENGTH;
      if (fits && settling.notBeforeMs <= nowMs) {
        batch.push(settling);
        length += textLength(settling);
      } else later.push(settling);
    }
    waiting = later;
    return batch;
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
      const alone = takeAlone(nowMs);
      if (alone !== undefined) return alone;
      if (!hurries && nowMs < nextMs()) return undefined;
      const batch = takeTogether(nowMs);
      gatheringSinceMs = nowMs;
      return batch.length === 0 ? undefined : batch;
    },
    nextMs,
    answered(batch, unsettled) {
      gatheringSinceMs = monotonicMs();
      for (const settling of batch) answer(settling, unsettled.get(settling.held.job.id));
    },
    errored(batch, error, isAlone) {
      const waits = isLockTimeout(error);
      if (!isDataError(error) && !waits) {
        for (const settling of batch) settling.isResent = true;
        waiting.unshift(...batch);
        return false;
      }
      if (!isAlone && !(waits && batch.length > 1)) {
        // What was refused may have been the claim: that must not fail a job, or put it off.
        split.push([...batch]);
        return true;
      }
      const [only] = batch;
      if (batch.length === 1 && only !== undefined)
        return waits ? postpone(only, error) : reduce(only, error);
      split.push(...cutUp(batch));
      return true;
    },
    hurry() {
      lockedNotBeforeMs = 0;
    },
    hasRefused: () => split.length > 0 || monotonicMs() >= lockedMs(),
    size: () =>
      waiting.length + locked.length + split.reduce((sum, batch) => sum + batch.length, 0),
  };

  function postpone(settling: Settling, error: unknown): boolean {
    const retryInMs = jittered(LOCKED_MS);
    locked.push(settling);
    lockedNotBeforeMs = monotonicMs() + retryInMs;
    emit?.({
      type: "statement.errored",
      statement: "settle",
      error: eventError(error),
      retryInMs: Math.round(retryInMs),
    });
    return true;
  }

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

/** Into as many parts as each has rows: few statements to the bad one, also where each try waits for its lock. */
function cutUp(batch: SettleBatch): Settling[][] {
  const size = Math.floor(Math.sqrt(batch.length));
  return Array.from({ length: Math.ceil(batch.length / size) }, (_, part) =>
    batch.slice(part * size, (part + 1) * size),
  );
}

function textLength({ item: { settlement } }: Settling): number {
  if (settlement.way !== "end") return 0;
  return (settlement.error?.length ?? 0) + (settlement.result?.length ?? 0);
}

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
