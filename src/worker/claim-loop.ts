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
import { isAnswered } from "./sql-errors.js";

/**
 * Invariant: of each worker one claim is under way at a time, beside it one far
 * sweep that takes long, and one batch of outcomes; and what they carry is answered,
 * put back, or known to be lost before the next ones of their kind leave.
 */

export interface ClaimLoopOptions {
  readonly alarm: Alarm;
  readonly plan: ClaimPlan;
  readonly settles: SettleBuffer;
  readonly send: (task: SettleAndClaim) => Promise<SettleAndClaimAnswer>;
  /** The same on another connection, which a claim does not wait for. */
  readonly sendBeside: (task: SettleAndClaim) => Promise<SettleAndClaimAnswer>;
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
  finish(): void;
  /** Ends the loop once its statement has been answered. */
  end(): void;
}

/**
 * From so many outcomes on they travel beside the claim, not with it: a statement costs the
 * server 130 µs (ADR 0011), which is little against the work of two of its processes at once.
 */
const BESIDE_FROM = 100;
/** The first wait after an error, in milliseconds; it doubles with each further one. */
const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 2_000;

/** Creates the loop that claims and settles. */
export function createClaimLoop(options: ClaimLoopOptions): ClaimLoop {
  const { alarm, plan, settles, emit } = options;
  let isOver = false;
  let isFinishing = false;
  let failures = 0;
  let notBeforeMs = 0;
  let strayPairs: readonly ClaimPair[] = [];
  /** The far sweep that is under way beside other claims, and the slots that it may fill. */
  let sweep: Promise<void> | undefined;
  let slotsOfSweep = 0;

  const succeed = (
    batch: SettleBatch,
    request: ClaimRequest | undefined,
    answer: SettleAndClaimAnswer,
    sentAtMs: number,
  ): void => {
    failures = 0;
    settles.answered(batch, answer.unsettled);
    const nowMs = monotonicMs();
    if (request !== undefined && answer.claim !== undefined) {
      plan.learn(request, answer.claim, nowMs);
      options.onClaimed(answer.claim, sentAtMs);
    }
    // After `learn`: a statement's claim does not see what its settling part writes.
    plan.expect(nowMs + dueAgainInMs(batch));
  };

  const fail = (what: string, error: unknown): void => {
    failures += 1;
    const retryInMs = jittered(Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1)));
    notBeforeMs = monotonicMs() + retryInMs;
    // After the end nobody waits for it, and `worker.stopped` is to be the last event.
    if (isOver) return;
    emit?.({
      type: "statement.errored",
      statement: what,
      error: eventError(error),
      retryInMs: Math.round(retryInMs),
    });
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

  /** Leaves on the other connection; the loop goes on meanwhile, with the slots that are left. */
  const sweepBeside = (request: ClaimRequest): void => {
    slotsOfSweep = request.free;
    sweep = send([], request, options.sendBeside).finally(() => {
      sweep = undefined;
      slotsOfSweep = 0;
      alarm.ring();
    });
  };

  const room = (): ClaimRoom => {
    const whole = options.room();
    if (slotsOfSweep === 0) return whole;
    // Nothing ahead: it would start in the slots that the sweep is to fill.
    return { ...whole, free: Math.max(0, whole.free - slotsOfSweep), ahead: 0 };
  };

  const nextRequest = (nowMs: number, present: ClaimRoom): ClaimRequest | undefined =>
    mayClaim() ? plan.next(nowMs, present) : undefined;

  const mayClaim = (): boolean => strayPairs.length === 0 && !settles.hasRefused();

  /** Sends what there is, in one statement or in two side by side; nothing when there is nothing. */
  const dispatch = (
    batch: SettleBatch,
    request: ClaimRequest | undefined,
  ): Promise<void> | undefined => {
    const isOneOfTwo = batch.length >= BESIDE_FROM && sweep === undefined;
    if (request !== undefined && isOneOfTwo) return sendBoth(batch, request);
    return request !== undefined || batch.length > 0 ? send(batch, request) : undefined;
  };

  const sendBoth = async (batch: SettleBatch, request: ClaimRequest): Promise<void> => {
    await Promise.all([send([], request), send(batch, undefined, options.sendBeside)]);
    // Again, when both are answered: the claim may not have seen what was written beside it.
    plan.expect(monotonicMs() + dueAgainInMs(batch));
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
    if (request !== undefined && plan.isBeside(request)) return sweepBeside(request);
    const batch = settles.take(nowMs, request !== undefined) ?? [];
    return dispatch(batch, request) ?? rest(nowMs, present);
  };

  const isDone = (): boolean =>
    settles.size() === 0 && strayPairs.length === 0 && sweep === undefined;

  return {
    async run() {
      while (!isOver && !(isFinishing && isDone())) await step();
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
