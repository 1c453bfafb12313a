import { eventError, type QueueEvent } from "../instrumentation/instrumentation.js";
import type { ClaimPair, ClaimRequest } from "../queries/claim-jobs.js";
import type { ClaimAnswer } from "../queries/claimed-row.js";
import type { SettleAndClaim, SettleAndClaimAnswer } from "../queries/settle-and-claim.js";
import type { Alarm } from "./alarm.js";
import type { ClaimPlan } from "./claim-plan.js";
import type { ClaimRoom } from "./claim-room.js";
import { jittered, monotonicMs } from "./clock.js";
import { mayHaveBeenSent } from "./connection.js";
import type { SettleBatch, SettleBuffer } from "./settle-buffer.js";
import { createSettleLane } from "./settle-lane.js";
import { isAnswered } from "./sql-errors.js";

/**
 * Invariant: of each worker one claim is under way at a time, and on the
 * listening connection at most one long far sweep and one batch of outcomes, by
 * turns; what they carry is answered, put back, or known to be lost before the
 * next of their kind leaves.
 */

type Send = (task: SettleAndClaim) => Promise<SettleAndClaimAnswer>;

export interface ClaimLoopOptions {
  readonly alarm: Alarm;
  readonly plan: ClaimPlan;
  readonly settles: SettleBuffer;
  readonly send: Send;
  /** The same on the listening connection, if there is one: a claim does not wait for it. */
  readonly sendBeside: Send | undefined;
  /** Gives back jobs of a claim whose answer was lost. */
  readonly releaseStrays: (pairs: readonly ClaimPair[]) => Promise<unknown>;
  /** The room for jobs; none while stopping. */
  readonly room: () => ClaimRoom;
  /** Takes what was claimed by a statement sent at `sentAtMs`. */
  readonly onClaimed: (answer: ClaimAnswer, sentAtMs: number) => void;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

export interface ClaimLoop {
  /** Runs until `finish` has been called and everything is settled, or until `end` is called. */
  run(): Promise<void>;
  /** Something changed that it may act on. */
  notice(): void;
  finish(): void;
  /** Ends the loop once its statement has been answered. */
  end(): void;
}

/** The first wait after an error, in milliseconds; it doubles with each further one. */
const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 2_000;

/** Creates the loop that claims and settles. */
export function createClaimLoop(options: ClaimLoopOptions): ClaimLoop {
  const { alarm, plan, settles, sendBeside, emit } = options;
  let isOver = false;
  let isFinishing = false;
  let failures = 0;
  let notBeforeMs = 0;
  let strayPairs: readonly ClaimPair[] = [];
  let isClaiming = false;
  /** The earliest due time among jobs that were queued again since the last claim was sent. */
  let unseenDueMs = Number.POSITIVE_INFINITY;
  /** The far sweep that is under way beside other claims, and the slots that it may fill. */
  let sweep: Promise<void> | undefined;
  let slotsOfSweep = 0;

  const succeed = (
    batch: SettleBatch,
    request: ClaimRequest | undefined,
    answer: SettleAndClaimAnswer,
    sentAtMs: number,
  ): void => {
    settles.answered(batch, answer.unsettled);
    const nowMs = monotonicMs();
    if (request !== undefined && answer.claim !== undefined) {
      plan.learn(request, answer.claim, nowMs);
      options.onClaimed(answer.claim, sentAtMs);
    }
    // After `learn`: a claim does not see what is written by its own statement, or beside it.
    unseenDueMs = Math.min(unseenDueMs, nowMs + dueAgainInMs(batch));
    plan.expect(unseenDueMs);
  };

  const report = (what: string, error: unknown, retryInMs: number): void => {
    // After the end nobody waits for it, and `worker.stopped` is to be the last event.
    if (isOver) return;
    emit?.({
      type: "statement.errored",
      statement: what,
      error: eventError(error),
      retryInMs: Math.round(retryInMs),
    });
  };

  const fail = (what: string, error: unknown): void => {
    failures += 1;
    const retryInMs = jittered(Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1)));
    notBeforeMs = monotonicMs() + retryInMs;
    report(what, error, retryInMs);
  };

  const claimErrored = (request: ClaimRequest, error: unknown): void => {
    plan.forget(request);
    const mayHaveClaimed = mayHaveBeenSent(error) && !isAnswered(error);
    if (mayHaveClaimed) strayPairs = [...strayPairs, ...whereClaimed(request)];
  };

  const send = async (
    batch: SettleBatch,
    request: ClaimRequest | undefined,
    by = options.send,
  ): Promise<void> => {
    const sentAtMs = monotonicMs();
    try {
      const answer = await by({ items: batch.map(({ item }) => item), request });
      failures = 0;
      succeed(batch, request, answer, sentAtMs);
    } catch (error) {
      if (request !== undefined) claimErrored(request, error);
      const goesOn = batch.length > 0 && settles.errored(batch, error, request === undefined);
      if (!goesOn) fail(batch.length > 0 ? "settle" : "claim", error);
    }
  };

  const tidy = async (pairs: readonly ClaimPair[]): Promise<void> => {
    try {
      await options.releaseStrays(pairs);
      strayPairs = [];
    } catch (error) {
      fail("release strays", error);
    }
  };

  /** Leaves on the listening connection; the loop goes on meanwhile, with the slots that are left. */
  const sweepBeside = (request: ClaimRequest): void => {
    slotsOfSweep = request.free;
    sweep = send([], request, sendBeside).finally(() => {
      sweep = undefined;
      slotsOfSweep = 0;
      alarm.ring();
    });
  };

  const settleBeside = async (by: Send, batch: SettleBatch): Promise<void> => {
    const sentAtMs = monotonicMs();
    try {
      const answer = await by({ items: batch.map(({ item }) => item), request: undefined });
      succeed(batch, undefined, answer, sentAtMs);
    } catch (error) {
      if (settles.errored(batch, error, true)) return;
      // Claims go on, and what was put back goes with the next one.
      report("settle", error, 0);
      throw error;
    } finally {
      alarm.ring();
    }
  };

  const lane =
    sendBeside &&
    createSettleLane({
      settles,
      send: (batch) => settleBeside(sendBeside, batch),
      isWanted: () => isClaiming && sweep === undefined,
    });

  const room = (): ClaimRoom => {
    const whole = options.room();
    if (slotsOfSweep === 0) return whole;
    // Nothing ahead: it would start in the slots that the sweep is to fill.
    return { ...whole, free: Math.max(0, whole.free - slotsOfSweep), ahead: 0 };
  };

  const nextRequest = (nowMs: number, present: ClaimRoom): ClaimRequest | undefined =>
    mayClaim() ? plan.next(nowMs, present) : undefined;

  const mayClaim = (): boolean => strayPairs.length === 0 && !settles.hasRefused();

  const claim = async (batch: SettleBatch, request: ClaimRequest): Promise<void> => {
    isClaiming = true;
    unseenDueMs = Number.POSITIVE_INFINITY;
    const sent = send(batch, request);
    lane?.notice();
    await sent;
    isClaiming = false;
  };

  /** Behind a batch that hangs, a sweep would hang too, with the slots that it is to fill. */
  const leavesBeside = (request: ClaimRequest): boolean =>
    plan.isBeside(request) && lane?.isSlow() !== true;

  /** What travels with a claim: many leave beside it, unless a sweep is there. */
  const batchWith = (nowMs: number): SettleBatch => {
    const isLeft = sweep === undefined && lane?.takesOver() === true;
    return isLeft ? [] : (settles.take(nowMs, true) ?? []);
  };

  /** Until the next outcomes or the next claim are due, or something rings. */
  const rest = (nowMs: number, present: ClaimRoom): Promise<void> => {
    const waitsForPlan = mayClaim() && present.free + present.ahead > 0;
    const claimMs = waitsForPlan ? plan.nextMs(present) : Number.POSITIVE_INFINITY;
    return alarm.sleep(Math.min(settles.nextMs(), claimMs) - nowMs);
  };

  /** One statement, or a sleep until there is one to send. */
  const step = async (): Promise<void> => {
    const nowMs = monotonicMs();
    if (nowMs < notBeforeMs) return alarm.sleep(notBeforeMs - nowMs);
    // What a sweep under way has claimed is not held yet, and would be given back.
    if (strayPairs.length > 0 && sweep === undefined) return tidy(strayPairs);
    const present = room();
    const request = nextRequest(nowMs, present);
    if (request !== undefined && leavesBeside(request)) return sweepBeside(request);
    if (request !== undefined) return claim(batchWith(nowMs), request);
    const batch = settles.take(nowMs, false);
    return batch === undefined ? rest(nowMs, present) : send(batch, undefined);
  };

  const isDone = (): boolean =>
    settles.size() === 0 &&
    strayPairs.length === 0 &&
    sweep === undefined &&
    lane?.underWay() === undefined;

  return {
    async run() {
      while (!isOver && !(isFinishing && isDone())) await step();
      await lane?.underWay();
    },
    notice() {
      alarm.ring();
      lane?.notice();
    },
    finish() {
      isFinishing = true;
      alarm.ring();
    },
    end() {
      isOver = true;
      alarm.ring();
    },
  };
}

/** Where the jobs of a claim may be: those of a sweep also below the floors. */
function whereClaimed({ pairs, sweep }: ClaimRequest): readonly ClaimPair[] {
  if (sweep === undefined) return pairs;
  return [...pairs, ...pairs.map((pair) => ({ ...pair, floor: null }))];
}

/** How long until the first of these jobs is due again, in milliseconds. */
function dueAgainInMs(batch: SettleBatch): number {
  const delays = batch.map(({ item: { settlement } }) =>
    settlement.way === "end" && settlement.status === "queued" ? settlement.delayMs : null,
  );
  return Math.min(...delays.map((delayMs) => delayMs ?? Number.POSITIVE_INFINITY));
}
