import { eventError, type QueueEvent } from "../instrumentation/instrumentation.js";
import type { ClaimPair, ClaimRequest } from "../queries/claim-request.js";
import type { ClaimAnswer } from "../queries/claimed-row.js";
import type { SettleAndClaim, SettleAndClaimAnswer } from "../queries/settle-and-claim.js";
import { isAnswered, isTooLong } from "../queries/sql-errors.js";
import type { Alarm } from "./alarm.js";
import type { ClaimPlan } from "./claim-plan.js";
import type { ClaimRoom } from "./claim-room.js";
import { monotonicMs } from "./clock.js";
import { mayHaveBeenSent } from "./connection.js";
import { createRetryPause } from "./retry-pause.js";
import type { SettleBatch, SettleBuffer } from "./settle-buffer.js";
import { createSettleLane } from "./settle-lane.js";

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
  /** Whether that one is connected, and at nothing that takes long: what is sent there is not to wait. */
  readonly isBesideFree: () => boolean;
  /** Gives back jobs of claims whose answers were lost; at most `asked` there may be. */
  readonly releaseStrays: (pairs: readonly ClaimPair[], asked: number) => Promise<unknown>;
  /** The room for jobs; none while stopping. */
  readonly room: () => ClaimRoom;
  /** Takes what was claimed by a statement sent at `sentAtMs` for so many free slots, and ahead. */
  readonly onClaimed: (answer: ClaimAnswer, sentAtMs: number, claimedFor: number) => void;
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

/** After statements that errored. */
const PAUSE = { firstMs: 50, maxMs: 2_000 };

/** Creates the loop that claims and settles. */
export function createClaimLoop(options: ClaimLoopOptions): ClaimLoop {
  const { alarm, plan, settles, sendBeside, emit } = options;
  let isOver = false;
  let isFinishing = false;
  const pause = createRetryPause(PAUSE);
  const strayPause = createRetryPause(PAUSE);
  let strays: Strays | undefined;
  let isClaiming = false;
  /** A claim was refused together with outcomes. */
  let isInDoubt = false;
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
      isInDoubt = false;
      plan.learn(request, answer.claim, nowMs);
      options.onClaimed(answer.claim, sentAtMs, request.free);
    }
    // After `learn`: a claim does not see what is written by its own statement, or beside it.
    unseenDueMs = Math.min(unseenDueMs, nowMs + dueAgainInMs(batch));
    if (batch.some(isGivenBack)) plan.lookFar();
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
    report(what, error, pause.errored());
  };

  const claimErrored = (
    request: ClaimRequest,
    error: unknown,
    sentAtMs: number,
    isAlone: boolean,
  ): void => {
    const nowMs = monotonicMs();
    const wasSent = mayHaveBeenSent(error);
    const isRefused = wasSent && isAnswered(error);
    // It may have been an outcome that was refused: the next claim goes by itself, and tells.
    isInDoubt = isRefused && !isAlone;
    plan.forget(request, {
      nowMs,
      isRefused: isRefused && isAlone,
      tookMs: isAlone ? gaveUpAfterMs(error, nowMs - sentAtMs) : 0,
    });
    if (wasSent && !isRefused) strays = straysOf(request, nowMs, strays);
  };

  const send = async (batch: SettleBatch, request: ClaimRequest | undefined): Promise<void> => {
    const sentAtMs = monotonicMs();
    try {
      const answer = await options.send({ items: batch.map(({ item }) => item), request });
      pause.succeeded();
      succeed(batch, request, answer, sentAtMs);
    } catch (error) {
      if (request !== undefined) claimErrored(request, error, sentAtMs, batch.length === 0);
      const goesOn = batch.length > 0 && settles.errored(batch, error, request === undefined);
      if (!goesOn) fail(batch.length > 0 ? "settle" : "claim", error);
    }
  };

  /** Outcomes do not wait for it to work: a search that the server gives up for its length is followed by as long a pause. */
  const tidy = async (lost: Strays): Promise<void> => {
    const sentAtMs = monotonicMs();
    try {
      await options.releaseStrays(lost.pairs, lost.asked);
      strays = undefined;
      strayPause.succeeded();
    } catch (error) {
      const nowMs = monotonicMs();
      const retryInMs = Math.max(strayPause.errored(), gaveUpAfterMs(error, nowMs - sentAtMs));
      strays = { ...lost, notBeforeMs: nowMs + retryInMs };
      report("release strays", error, retryInMs);
    }
  };

  /** What is to be looked for now; nothing while a sweep is under way: what it has claimed is not held yet, and would be given back. */
  const dueStrays = (nowMs: number): Strays | undefined => {
    if (strays === undefined || sweep !== undefined) return undefined;
    // Once their leases have run out, whoever sweeps takes them.
    if (nowMs >= strays.untilMs) strays = undefined;
    return strays !== undefined && nowMs >= strays.notBeforeMs ? strays : undefined;
  };

  /** Leaves on the listening connection; the loop goes on meanwhile, with the slots that are left. */
  const sweepBeside = (by: Send, request: ClaimRequest): void => {
    slotsOfSweep = request.free;
    const sentAtMs = monotonicMs();
    sweep = by({ items: [], request })
      .then((answer) => succeed([], request, answer, sentAtMs))
      .catch((error: unknown) => {
        claimErrored(request, error, sentAtMs, true);
        // The claims on the own connection go on.
        report("claim", error, 0);
      })
      .finally(() => {
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
      isWanted: () => isClaiming && sweep === undefined && options.isBesideFree(),
    });

  const room = (): ClaimRoom => {
    const whole = options.room();
    if (slotsOfSweep === 0) return whole;
    // Nothing ahead: it would start in the slots that the sweep is to fill.
    return { ...whole, free: Math.max(0, whole.free - slotsOfSweep), ahead: 0 };
  };

  const nextRequest = (nowMs: number, present: ClaimRoom): ClaimRequest | undefined =>
    mayClaim() ? plan.next(nowMs, present) : undefined;

  const mayClaim = (): boolean => strays === undefined && !settles.hasRefused();

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
    plan.isBeside(request) && lane?.isSlow() !== true && options.isBesideFree();

  /** What travels with a claim: many leave beside it, unless a sweep is there. */
  const batchWith = (nowMs: number): SettleBatch => {
    const isLeft = sweep === undefined && lane?.takesOver() === true && options.isBesideFree();
    return isLeft || isInDoubt ? [] : (settles.take(nowMs, true) ?? []);
  };

  /** Outcomes do not wait for claims that are to be prompt: these take them along, and are plain ones then. */
  const claimWith = (batch: SettleBatch, request: ClaimRequest): Promise<void> =>
    claim(batch, batch.length === 0 ? request : { ...request, isPrompt: false });

  /** Until the next outcomes or the next claim are due, or something rings. */
  const rest = (nowMs: number, present: ClaimRoom): Promise<void> => {
    const waitsForPlan = mayClaim() && present.free + present.ahead > 0;
    const claimMs = waitsForPlan ? plan.nextMs(present) : Number.POSITIVE_INFINITY;
    // The end of a sweep rings.
    const tidyMs = sweep === undefined ? strays?.notBeforeMs : undefined;
    return alarm.sleep(
      Math.min(settles.nextMs(), claimMs, tidyMs ?? Number.POSITIVE_INFINITY) - nowMs,
    );
  };

  /** One statement, or a sleep until there is one to send. */
  const step = async (): Promise<void> => {
    const nowMs = monotonicMs();
    if (nowMs < pause.untilMs()) return alarm.sleep(pause.untilMs() - nowMs);
    const lost = dueStrays(nowMs);
    if (lost !== undefined) return tidy(lost);
    const present = room();
    const request = nextRequest(nowMs, present);
    if (request !== undefined && sendBeside !== undefined && leavesBeside(request))
      return sweepBeside(sendBeside, request);
    if (request !== undefined) return claimWith(batchWith(nowMs), request);
    const batch = settles.take(nowMs, false);
    return batch === undefined ? rest(nowMs, present) : send(batch, undefined);
  };

  const isDone = (): boolean =>
    settles.size() === 0 &&
    strays === undefined &&
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
      settles.hurry();
      alarm.ring();
    },
    end() {
      isOver = true;
      alarm.ring();
    },
  };
}

/** What claims without an answer may have left behind: jobs that are held for this worker, which has not heard of them. */
interface Strays {
  readonly pairs: readonly ClaimPair[];
  readonly asked: number;
  /** When they are looked for. */
  readonly notBeforeMs: number;
  /** When the last of their leases has run out. */
  readonly untilMs: number;
}

function straysOf(request: ClaimRequest, nowMs: number, others: Strays | undefined): Strays {
  return {
    pairs: [...(others?.pairs ?? []), ...whereClaimed(request)],
    asked: (others?.asked ?? 0) + request.free + request.ahead,
    notBeforeMs: nowMs,
    untilMs: nowMs + Math.max(request.leaseMs, ...Object.values(request.leaseMsByName)),
  };
}

/** How long the server worked on a statement until it gave it up for its length; 0 for whatever else went wrong. */
const gaveUpAfterMs = (error: unknown, sinceMs: number): number => (isTooLong(error) ? sinceMs : 0);

/** Where the jobs of a claim may be: those of a sweep also below the floors. */
function whereClaimed({ pairs, sweep }: ClaimRequest): readonly ClaimPair[] {
  if (sweep === undefined) return pairs;
  return [...pairs, ...pairs.map((pair) => ({ ...pair, floor: null }))];
}

/** It was claimed, so that its floor lies above it, and is due at once. */
const isGivenBack = ({ item: { settlement } }: SettleBatch[number]): boolean =>
  settlement.way === "end" && settlement.isUncounted && settlement.delayMs === null;

/** How long until the first of these jobs is due again, in milliseconds. */
function dueAgainInMs(batch: SettleBatch): number {
  const delays = batch.map(({ item: { settlement } }) =>
    settlement.way === "end" && settlement.status === "queued" ? settlement.delayMs : null,
  );
  return Math.min(...delays.map((delayMs) => delayMs ?? Number.POSITIVE_INFINITY));
}
