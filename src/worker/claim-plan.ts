import type { ClaimRequest, Sweep } from "../queries/claim-jobs.js";
import {
  type ClaimAnswer,
  type ClaimedJob,
  isSuspect,
  takenInOrder,
} from "../queries/claimed-row.js";
import { createClaimFloors, isAbove } from "./claim-floor.js";
import { jittered } from "./clock.js";

/** When to claim, how much, and how far back to look. */
export interface ClaimPlan {
  /** What to ask for now; nothing when there is no room or no reason. */
  next(nowMs: number, room: ClaimRoom): ClaimRequest | undefined;
  /** When the next claim is due, given that there is room. */
  nextMs(room: ClaimRoom): number;
  /** Whether this claim is a far sweep that takes long: others need not wait for it, and none like it comes before its end. */
  takesLong(request: ClaimRequest): boolean;
  /** Learns from what a claim found that was answered at `nowMs`. */
  learn(request: ClaimRequest, answer: ClaimAnswer, nowMs: number): void;
  /** A claim errored: what it was to find is still to be found. */
  forget(request: ClaimRequest): void;
  /** There may be jobs: somebody said so. */
  wake(): void;
  /** A job of ours is due again at `dueMs`; no claim so far has seen that. */
  expect(dueMs: number): void;
  /**
   * Whether what was fetched ahead is to leave slots that come free to jobs that
   * were passed over: a line that is always refilled would let them wait for ever.
   */
  yields(): boolean;
}

/** The room that a worker has for jobs. */
export interface ClaimRoom {
  /** Slots without a job. */
  readonly free: number;
  /** Jobs that may wait beyond the slots. */
  readonly ahead: number;
  /** Whether a suspect is held that has not run for long yet. */
  readonly holdsSuspect: boolean;
}

/** What every claim of a worker asks for alike. */
export interface ClaimPlanOptions {
  readonly workerId: string;
  readonly queues: readonly string[];
  readonly names: readonly string[];
  readonly leaseMs: number;
  readonly leaseMsByName: Readonly<Record<string, number>>;
  readonly pollIntervalMs: number;
  /** Whether polls are to follow each other closely for now. */
  readonly pollsClosely: () => boolean;
}

/** A close poll waits this long, jittered to 10 to 25 ms. */
const CLOSE_POLL_MS = 10;
/** How far back a near sweep looks: most late commits are found there at little cost. */
const NEAR_REACH_MS = 10_000;
/** Near sweeps are at least this far apart; while there is more to do than hands, lateness costs nothing. */
const NEAR_INTERVAL_MS = 50;
const NEAR_INTERVAL_WITH_BACKLOG_MS = 500;
/** A far sweep after one that kept the server busy for so long does not hold up other claims, in milliseconds. */
const LONG_MS = 25;
/** Near sweeps, and far ones, take at most a tenth of the time: the next is this many durations away. */
const REST = 9;

/** Creates a plan that starts with a look at everything. */
export function createClaimPlan(options: ClaimPlanOptions): ClaimPlan {
  const floors = createClaimFloors(options.queues);
  let isWoken = true;
  let hasBacklog = false;
  let nextPollMs = 0;
  let nextNearMs = 0;
  let nextFarMs = 0;
  /** Before this a far sweep would take more than its share of the time. */
  let farRestedMs = 0;
  /** How long the last far sweep took the server, and the one that is under way, if that takes long. */
  let farTookMs = 0;
  let longSweep: ClaimRequest | undefined;
  /** A wake-up may be for a job that committed late, below the floor: how far back is still to be looked for it. */
  let owes: "nothing" | "near" | "far" = "nothing";

  /** Whether jobs were passed over that the next claim sees, and such as only a sweep sees. */
  let hasPassedOver = false;
  let hasPassedOverSwept = false;
  /** A suspect was found, and they are taken one at a time. */
  let leavesSuspects = false;
  /** From this priority on, the last far sweep has not seen all that lies below the floors. */
  let unsearchedFrom = Number.NEGATIVE_INFINITY;

  const wantsSuspect = ({ free, holdsSuspect }: ClaimRoom): boolean =>
    free > 0 && leavesSuspects && !holdsSuspect;

  const yields = (): boolean => hasPassedOver || hasPassedOverSwept;

  /** When a far sweep that is due at `dueMs` can leave. */
  const farMs = (dueMs: number): number => (longSweep === undefined ? dueMs : Infinity);

  const nextMs = (room: ClaimRoom): number => {
    if (isWoken || hasBacklog) return 0;
    if (room.free > 0 && yields()) return Math.min(nextPollMs, farMs(0));
    return wantsSuspect(room) ? Math.min(nextPollMs, farMs(farRestedMs)) : nextPollMs;
  };

  const farSweepFor = (nowMs: number, room: ClaimRoom): Sweep | undefined => {
    if (longSweep !== undefined) return undefined;
    const suspects = room.holdsSuspect || room.free === 0 ? 0 : 1;
    // Known to be there, and their lease has run out already: no rest, and no turns among workers.
    if (room.free > 0 && hasPassedOverSwept) return { reachMs: null, exclusive: false, suspects };
    const owesFar = (owes === "far" || wantsSuspect(room)) && nowMs >= farRestedMs;
    if (nowMs < nextFarMs && !owesFar) return undefined;
    return { reachMs: null, exclusive: hasBacklog, suspects };
  };

  const sweepFor = (nowMs: number, room: ClaimRoom): Sweep | undefined => {
    const far = farSweepFor(nowMs, room);
    if (far !== undefined || nowMs < nextNearMs) return far;
    const suspects = room.holdsSuspect || room.free === 0 ? 0 : 1;
    return { reachMs: NEAR_REACH_MS, exclusive: hasBacklog, suspects };
  };

  const nearIntervalMs = (): number =>
    jittered(hasBacklog ? NEAR_INTERVAL_WITH_BACKLOG_MS : NEAR_INTERVAL_MS);

  const rest = (request: ClaimRequest, answer: ClaimAnswer, nowMs: number): void => {
    const { sweep } = request;
    if (sweep === undefined) return;
    const goesOn = answer.hasSwept && hasBacklog && endsBelowFloor(request.pairs, answer);
    const restMs = goesOn ? nowMs : nowMs + answer.tookMs * REST;
    if (sweep.reachMs === null) {
      if (answer.hasSwept) farTookMs = answer.tookMs;
      farRestedMs = restMs;
      const pauseMs = answer.hasSwept && !goesOn ? options.pollIntervalMs : 0;
      nextFarMs = Math.max(restMs, nowMs + pauseMs);
    }
    const nearMs = goesOn ? 0 : nearIntervalMs();
    // A far sweep's length is no measure for near ones: late commits would wait for it.
    nextNearMs = Math.max(sweep.reachMs === null ? nowMs : restMs, nowMs + nearMs);
  };

  const learnOfPassed = ({ sweep }: ClaimRequest, answer: ClaimAnswer): void => {
    const isFar = sweep?.reachMs === null && answer.hasSwept;
    hasPassedOver = answer.passedOver?.isOnlySwept === false;
    hasPassedOverSwept = answer.passedOver?.isOnlySwept === true || (hasPassedOverSwept && !isFar);
    if (isFar && sweep.suspects > 0)
      leavesSuspects = [...answer.jobs, ...answer.ended].some(isSuspect);
  };

  /** A job above its floor is not to start before one of the same priority below, which may be a lost one. */
  const learnOfUnsearched = (request: ClaimRequest, answer: ClaimAnswer): void => {
    if (request.sweep?.reachMs === null && answer.hasSwept)
      unsearchedFrom = firstUnsearched(request.pairs, answer);
    if (takenInOrder(answer).some(({ priority }) => priority >= unsearchedFrom))
      nextFarMs = farRestedMs;
  };

  /** What is owed once the answer is known; asked again where nobody swept. */
  const owedAfter = ({ sweep }: ClaimRequest, answer: ClaimAnswer): typeof owes => {
    // A wake-up that came while the claim was under way is for a job that it may have missed.
    if (owes === "nothing" || isWoken) return owes;
    if (sweep === undefined || !answer.hasSwept) return owes;
    return sweep.reachMs === null || answer.jobs.length > 0 ? "nothing" : "far";
  };

  return {
    next(nowMs, room) {
      if (room.free + room.ahead === 0 || nowMs < nextMs(room)) return undefined;
      isWoken = false;
      const sweep = sweepFor(nowMs, room);
      const isLong = sweep?.reachMs === null && farTookMs >= LONG_MS;
      const request = {
        workerId: options.workerId,
        pairs: floors.nextPairs(),
        names: options.names,
        // The other half is for the claims meanwhile.
        free: isLong ? Math.ceil(room.free / 2) : room.free,
        ahead: isLong ? 0 : room.ahead,
        leaseMs: options.leaseMs,
        leaseMsByName: options.leaseMsByName,
        sweep,
        peeks: sweep !== undefined || yields(),
        wantsNextDue: !hasBacklog,
      };
      if (isLong) longSweep = request;
      return request;
    },
    nextMs,
    takesLong: (request) => request === longSweep,
    forget(request) {
      if (request === longSweep) longSweep = undefined;
      isWoken = true;
      owes = "near";
    },
    learn(request, answer, nowMs) {
      floors.learn(request.pairs, answer);
      if (request === longSweep) {
        longSweep = undefined;
        rest(request, answer, nowMs);
        learnOfPassed(request, answer);
        learnOfUnsearched(request, answer);
        owes = owedAfter(request, answer);
        return;
      }
      // One that is full of jobs it may not take must not be repeated at once.
      hasBacklog = answer.isFull && answer.jobs.length + answer.ended.length > 0;
      rest(request, answer, nowMs);
      learnOfPassed(request, answer);
      learnOfUnsearched(request, answer);
      const pollMs = options.pollsClosely()
        ? jittered(CLOSE_POLL_MS, 1.5)
        : jittered(options.pollIntervalMs);
      const dueInMs =
        answer.nextDueUs === null
          ? Number.POSITIVE_INFINITY
          : (answer.nextDueUs - answer.nowUs) / 1000;
      nextPollMs = nowMs + Math.min(pollMs, dueInMs);
      owes = owedAfter(request, answer);
      if (unsearchedFrom < Number.POSITIVE_INFINITY)
        nextPollMs = Math.min(nextPollMs, farMs(nextFarMs));
      if (owes === "near") nextPollMs = Math.min(nextPollMs, nextNearMs);
      if (owes === "far") nextPollMs = Math.min(nextPollMs, farMs(farRestedMs));
    },
    wake() {
      isWoken = true;
      owes = "near";
    },
    expect(dueMs) {
      nextPollMs = Math.min(nextPollMs, dueMs);
    },
    yields,
  };
}

/** Without a floor yet, all that a queue holds may be older than what others have lost. */
function isBelowFloor(
  pairs: ClaimRequest["pairs"],
  { queue, priority, place }: ClaimedJob,
): boolean {
  const floor = pairs.find((pair) => pair.queue === queue && pair.priority === priority)?.floor;
  return floor == null || !isAbove(place, floor);
}

/** Whether a claim took jobs, and each lies below the floor of its queue and priority. */
function endsBelowFloor(pairs: ClaimRequest["pairs"], answer: ClaimAnswer): boolean {
  const taken = takenInOrder(answer);
  return taken.length > 0 && taken.every((job) => isBelowFloor(pairs, job));
}

/** A sweep looks below the floors of all queues of a priority, then above them, then at the next priority. */
function firstUnsearched(pairs: ClaimRequest["pairs"], answer: ClaimAnswer): number {
  if (!answer.isFull) return Number.POSITIVE_INFINITY;
  const taken = takenInOrder(answer);
  const last = Math.max(...taken.map(({ priority }) => priority));
  const ofLast = taken.filter(({ priority }) => priority === last);
  const isPartial =
    pairs.some(({ priority, floor }) => priority === last && floor === null) ||
    ofLast.every((job) => isBelowFloor(pairs, job));
  return isPartial ? last : last + 1;
}
