import type { ClaimRequest } from "../queries/claim-request.js";
import { type ClaimAnswer, passedPriorityOf } from "../queries/claimed-row.js";
import { createClaimFloors } from "./claim-floor.js";
import type { ClaimRoom } from "./claim-room.js";
import { jittered } from "./clock.js";
import { type ClaimError, createSweepPlan } from "./sweep-plan.js";

/** When to claim, and how much; how far back to look is the sweeps' affair. */
export interface ClaimPlan {
  /** What to ask for now; nothing when there is no room or no reason. */
  next(nowMs: number, room: ClaimRoom): ClaimRequest | undefined;
  /** When the next claim is due, given that there is room. */
  nextMs(room: ClaimRoom): number;
  /** Whether this claim is a far sweep that takes long, which is to leave on the listening connection: the next ones do not wait for it. */
  isBeside(request: ClaimRequest): boolean;
  /** Learns from what a claim found that was answered at `nowMs`. */
  learn(request: ClaimRequest, answer: ClaimAnswer, nowMs: number): void;
  /** A claim errored: whatever it was looking for must be looked for again. */
  forget(request: ClaimRequest, error: ClaimError): void;
  /** Somebody has enqueued a job that is due now or soon. */
  wake(): void;
  /** There may be jobs that nobody tells of. */
  look(): void;
  /** Jobs may have come to lie anywhere below the floors: a far sweep is to look, as soon as it may. */
  lookFar(): void;
  /** A job of ours is due again at `dueMs`; no claim so far has seen that. */
  expect(dueMs: number): void;
  /**
   * The priority of a job that was passed over, if any: what was fetched ahead and is not more
   * urgent leaves slots that come free to it. A line that is always refilled would let it wait for ever.
   */
  yieldsTo(): number | undefined;
}

/** What every claim of a worker asks for alike. */
export interface ClaimPlanOptions {
  readonly workerId: string;
  readonly queues: readonly string[];
  readonly names: readonly string[];
  readonly leaseMs: number;
  readonly leaseMsByName: Readonly<Record<string, number>>;
  readonly pollIntervalMs: number;
  /** Whether a claim may leave on another connection while the next ones are under way. */
  readonly hasOtherConnection: boolean;
  /** Whether polls are to follow each other closely for now. */
  readonly pollsClosely: () => boolean;
  /** Whether one of the queues is paused, as far as is known: prompt claims would not tell that it is not any more. */
  readonly hasPausedQueues: () => boolean;
}

/** A close poll waits this long, jittered to 10 to 25 ms. */
const CLOSE_POLL_MS = 10;

/** Creates a plan that starts with a look at everything. */
export function createClaimPlan(options: ClaimPlanOptions): ClaimPlan {
  const floors = createClaimFloors(options.queues);
  const sweeps = createSweepPlan({
    intervalMs: options.pollIntervalMs,
    hasOtherConnection: options.hasOtherConnection,
  });
  let isWoken = true;
  /** Whether somebody has told of a job: that is fetched first, and the rest is looked for behind it. */
  let isTold = false;
  let hasBacklog = false;
  let nextPollMs = 0;
  /** The priority of a job that was passed over, and that the next claim sees. */
  let passedPriority: number | undefined;
  /** Whether a due job waits for nothing but a free slot. */
  let leavesDue = false;

  const yieldsTo = (): number | undefined => {
    const ofSweeps = sweeps.passedPriority();
    if (passedPriority === undefined || ofSweeps === undefined) return passedPriority ?? ofSweeps;
    return Math.min(passedPriority, ofSweeps);
  };

  const nextMs = (room: ClaimRoom): number => {
    if (isWoken || hasBacklog || (room.free > 0 && leavesDue)) return 0;
    return Math.min(nextPollMs, sweeps.dueMs(room));
  };

  /** While a sweep occupies the connection that listens, no notification comes in. */
  const pollMs = (): number =>
    options.pollsClosely() || sweeps.hasBeside()
      ? jittered(CLOSE_POLL_MS, 1.5)
      : jittered(options.pollIntervalMs);

  const look = (jobs = Number.POSITIVE_INFINITY): void => {
    isWoken = true;
    sweeps.wake(jobs);
  };

  /** Whether nothing else is to be done, or known to be there, than what a wake-up tells of. */
  const isIdle = (nowMs: number): boolean =>
    !hasBacklog && !leavesDue && yieldsTo() === undefined && nowMs < nextPollMs;

  const mayBePrompt = (nowMs: number, room: ClaimRoom): boolean =>
    isTold &&
    room.free > 0 &&
    isIdle(nowMs) &&
    !options.pollsClosely() &&
    !options.hasPausedQueues();

  return {
    next(nowMs, room) {
      if (room.free + room.ahead === 0 || nowMs < nextMs(room)) return undefined;
      const isPrompt = mayBePrompt(nowMs, room);
      const sweep = isPrompt ? sweeps.passBy() : sweeps.next(nowMs, room, hasBacklog);
      const isBeside = sweep !== undefined && sweeps.isBeside(sweep);
      // Another claim follows at once: what brought this one is not to wait for its answer.
      if (isBeside) nextPollMs = nowMs;
      else isWoken = isTold = false;
      return {
        workerId: options.workerId,
        pairs: floors.nextPairs(),
        names: options.names,
        ...shareOf(room, isBeside, isPrompt),
        leaseMs: options.leaseMs,
        leaseMsByName: options.leaseMsByName,
        sweep,
        peeks: sweep !== undefined || yieldsTo() !== undefined,
        hasBacklog,
        isPrompt,
      };
    },
    nextMs,
    isBeside: ({ sweep }) => sweep !== undefined && sweeps.isBeside(sweep),
    learn(given, answer, nowMs) {
      if (given.isPrompt) {
        hasBacklog = answer.isFull;
        // It has not told when the next job is due; and the one behind it is no prompt one, whoever wakes us.
        nextPollMs = Math.min(nextPollMs, nowMs);
        sweeps.learn(given, answer, nowMs, hasBacklog);
        return;
      }
      const request = withoutPaused(given, answer);
      const wasBeside = request.sweep !== undefined && sweeps.isBeside(request.sweep);
      floors.learn(request.pairs, answer);
      // What a sweep beside finds says nothing of the claims that went on meanwhile.
      passedPriority = passedPriorityOf(answer, false) ?? (wasBeside ? passedPriority : undefined);
      leavesDue = answer.leavesDue || (leavesDue && wasBeside);
      if (!wasBeside) {
        // One that is full of jobs it may not take must not be repeated at once.
        hasBacklog = answer.isFull && answer.jobs.length + answer.ended.length > 0;
        nextPollMs = nowMs + Math.min(pollMs(), dueInMs(answer));
      }
      sweeps.learn(request, answer, nowMs, hasBacklog);
    },
    forget({ sweep }, error) {
      sweeps.forget(sweep, error);
      look();
    },
    wake() {
      isTold = true;
      look(1);
    },
    look: () => look(),
    lookFar() {
      isWoken = true;
      sweeps.lookFar();
    },
    expect(dueMs) {
      nextPollMs = Math.min(nextPollMs, dueMs);
    },
    yieldsTo,
  };
}

/** How much of the room a claim may fill; the other half is for the claims beside it. */
const shareOf = (
  { free, ahead }: ClaimRoom,
  isBeside: boolean,
  isPrompt: boolean,
): Pick<ClaimRequest, "free" | "ahead"> =>
  isBeside ? { free: Math.ceil(free / 2), ahead: 0 } : { free, ahead: isPrompt ? 0 : ahead };

/** What is paused was not looked at: its floor stays where it is, and all that comes meanwhile lies above. */
function withoutPaused(request: ClaimRequest, { paused }: ClaimAnswer): ClaimRequest {
  if (paused === undefined || paused.length === 0) return request;
  return { ...request, pairs: request.pairs.filter(({ queue }) => !paused.includes(queue)) };
}

/** How long until the next job is due that a claim has seen, in milliseconds. */
const dueInMs = ({ nextDueUs, nowUs }: ClaimAnswer): number =>
  nextDueUs === null ? Number.POSITIVE_INFINITY : (nextDueUs - nowUs) / 1000;
