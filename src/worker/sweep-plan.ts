import type { ClaimRequest, Sweep } from "../queries/claim-request.js";
import {
  type ClaimAnswer,
  type ClaimedJob,
  isSuspect,
  passedPriorityOf,
  takenInOrder,
} from "../queries/claimed-row.js";
import { isAbove } from "./claim-floor.js";
import type { ClaimRoom } from "./claim-room.js";
import { jittered } from "./clock.js";

/** Which claims are sweeps: those that look below the floors too, for late commits and lost jobs (ADR 0010). */
export interface SweepPlan {
  /** What sweep a claim that leaves now is to be; none: a plain one. */
  next(nowMs: number, room: ClaimRoom, hasBacklog: boolean): Sweep | undefined;
  /** A claim leaves that is no sweep, whatever is due. */
  passBy(): undefined;
  /** When a sweep is due that is not to wait for the next poll, given that there is room. */
  dueMs(room: ClaimRoom): number;
  /** Whether this is the long far sweep under way: it runs on the listening connection, one at a time. */
  isBeside(sweep: Sweep): boolean;
  /** Whether there is one. */
  hasBeside(): boolean;
  /** Learns from what a claim found that was answered at `nowMs`, swept or plain. */
  learn(request: ClaimRequest, answer: ClaimAnswer, nowMs: number, hasBacklog: boolean): void;
  /** A claim errored: whatever it was looking for must be looked for again. */
  forget(sweep: Sweep | undefined, error: ClaimError): void;
  /** There may be so many jobs: also such as committed late, below a floor. */
  wake(jobs: number): void;
  /** There are jobs that may lie anywhere below the floors: no near sweep makes up for a far one. */
  lookFar(): void;
  /** The priority of a job that was passed over and that only a sweep sees, if any. */
  passedPriority(): number | undefined;
}

/** How long a sweep rests at least that the server refused at once, in milliseconds. */
const REFUSED_MS = 1_000;

/** How a claim errored. */
export interface ClaimError {
  readonly nowMs: number;
  /** Whether the server refused it, by itself; else it was not heard, or something else may have been refused. */
  readonly isRefused: boolean;
  /** How long the server had worked when it gave the claim up for its length, in milliseconds; else 0. */
  readonly tookMs: number;
}

/** How far back a near sweep looks: most late commits are found there at little cost. */
const NEAR_REACH_MS = 10_000;
/** Near sweeps are at least this far apart; while there is more to do than hands, lateness costs nothing. */
const NEAR_INTERVAL_MS = 50;
const NEAR_INTERVAL_WITH_BACKLOG_MS = 500;
/** A far sweep after one that kept the server busy for so long does not hold up other claims, in milliseconds. */
const LONG_MS = 25;
/** Near sweeps, and far ones, take at most a tenth of the time: the next is this many durations away. */
const REST = 9;

export interface SweepPlanOptions {
  /** Far sweeps are at least this far apart. */
  readonly intervalMs: number;
  /** Whether there is another connection for a sweep that takes long. */
  readonly hasOtherConnection: boolean;
}

/** Creates a plan that starts with a look at everything. */
export function createSweepPlan(options: SweepPlanOptions): SweepPlan {
  let nextNearMs = 0;
  let nextFarMs = 0;
  /** Before this a far sweep would take more than its share of the time. */
  let farRestedMs = 0;
  /** How long the last far sweep took the server, and whether it left jobs below the floors. */
  let farTookMs = 0;
  let goesOn = false;
  /** Whether the last far sweep was refused: the next one may be, whatever is known to be there. */
  let isRefused = false;
  /** The far sweep under way beside other claims, and whether somebody spoke of jobs since it left. */
  let beside: Sweep | undefined;
  let isWokenSinceBeside = false;
  /** A wake-up may be for a job that committed late, below the floor: how far back we still owe it a look. */
  let owes: "nothing" | "near" | "far" = "nothing";
  /** Jobs lie somewhere below the floors, whatever near sweeps find; and whether that was said after the last far sweep left. */
  let mustLookFar = false;
  let isAskedSinceFar = false;
  /** Somebody spoke of jobs after the last claim left. */
  let isWoken = false;
  /** How many jobs of those that wake-ups spoke of no claim has found yet. */
  let missing = 0;
  let passedPriority: number | undefined;
  /** A suspect was found, and they are taken one at a time. */
  let leavesSuspects = false;
  /** From this priority on, the last far sweep has not seen all that lies below the floors. */
  let unsearchedFrom = Number.NEGATIVE_INFINITY;

  const wantsSuspect = ({ free, holdsSuspect }: ClaimRoom): boolean =>
    free > 0 && leavesSuspects && !holdsSuspect;

  const isBeside = (sweep: Sweep | undefined): boolean => sweep !== undefined && sweep === beside;

  /** Jobs are known to be there that only a sweep sees, and their lease has run out already. */
  const isSure = (room: ClaimRoom): boolean =>
    room.free > 0 && passedPriority !== undefined && !isRefused;

  const isFarDue = (nowMs: number, room: ClaimRoom): boolean =>
    beside === undefined &&
    (isSure(room) ||
      nowMs >= nextFarMs ||
      ((owes === "far" || mustLookFar || wantsSuspect(room)) && nowMs >= farRestedMs));

  /** Whether a far sweep takes long and only looks; where there is something to be fetched, it is to have all the room. */
  const leavesBeside = (room: ClaimRoom): boolean =>
    options.hasOtherConnection && farTookMs >= LONG_MS && room.free > 0 && !goesOn && !isSure(room);

  /** The one under way may have found a suspect already. */
  const suspectsFor = ({ free, holdsSuspect }: ClaimRoom): number =>
    holdsSuspect || free === 0 || beside !== undefined ? 0 : 1;

  /** When the next far sweep is due out of its turn. */
  const farDueMs = (room: ClaimRoom): number => {
    if (beside !== undefined) return Number.POSITIVE_INFINITY;
    if (isSure(room)) return 0;
    const isRested = owes === "far" || mustLookFar || wantsSuspect(room);
    return Math.min(
      isRested ? farRestedMs : Number.POSITIVE_INFINITY,
      unsearchedFrom < Number.POSITIVE_INFINITY ? nextFarMs : Number.POSITIVE_INFINITY,
    );
  };

  const restOfFar = (answer: ClaimAnswer, nowMs: number, restedMs: number): void => {
    isRefused = false;
    if (answer.hasSwept) {
      farTookMs = answer.tookMs;
      mustLookFar &&= isAskedSinceFar;
    }
    farRestedMs = restedMs;
    const pauseMs = answer.hasSwept && !goesOn ? options.intervalMs : 0;
    nextFarMs = Math.max(restedMs, nowMs + pauseMs);
  };

  const rest = (
    { sweep, pairs }: ClaimRequest,
    answer: ClaimAnswer,
    nowMs: number,
    hasBacklog: boolean,
  ): void => {
    if (sweep === undefined) return;
    goesOn = answer.hasSwept && answer.isFull && endsBelowFloor(pairs, answer);
    const restedMs = goesOn ? nowMs : nowMs + answer.tookMs * REST;
    const isFar = sweep.reachMs === null;
    if (isFar) restOfFar(answer, nowMs, restedMs);
    const nearMs = hasBacklog ? NEAR_INTERVAL_WITH_BACKLOG_MS : NEAR_INTERVAL_MS;
    const pauseMs = goesOn ? 0 : jittered(nearMs);
    // A far sweep's length is no measure for near ones: late commits would wait for it.
    nextNearMs = Math.max(isFar ? nowMs : restedMs, nowMs + pauseMs);
  };

  /** It would be refused again, for its length or for a row that it meets: plain claims are not to wait for that. */
  const restOfRefused = (sweep: Sweep, { nowMs, tookMs }: ClaimError): void => {
    const restedMs = nowMs + Math.max(tookMs * REST, Math.min(options.intervalMs, REFUSED_MS));
    goesOn = false;
    passedPriority = undefined;
    if (sweep.reachMs !== null) nextNearMs = restedMs;
    else {
      nextFarMs = farRestedMs = restedMs;
      farTookMs = tookMs;
      isRefused = true;
    }
  };

  const learnOfPassed = ({ sweep }: ClaimRequest, answer: ClaimAnswer): void => {
    const isFar = sweep?.reachMs === null && answer.hasSwept;
    // What others found while it was under way beside them, it does not know.
    const isKept = !isFar || isBeside(sweep);
    passedPriority = passedPriorityOf(answer, true) ?? (isKept ? passedPriority : undefined);
    if (isFar && sweep.suspects > 0)
      leavesSuspects = [...answer.jobs, ...answer.ended].some(isSuspect);
  };

  /** A job above its floor is not to start before one of the same priority below, which may be a lost one. */
  const learnOfUnsearched = ({ sweep, pairs }: ClaimRequest, answer: ClaimAnswer): void => {
    if (sweep?.reachMs === null && answer.hasSwept) unsearchedFrom = firstUnsearched(pairs, answer);
    if (takenInOrder(answer).some(({ priority }) => priority >= unsearchedFrom))
      nextFarMs = farRestedMs;
  };

  /** What is owed once the answer is known; asked again where nobody swept. */
  const owedAfter = ({ sweep }: ClaimRequest, answer: ClaimAnswer): typeof owes => {
    // A wake-up that came while the claim was under way is for a job that it may have missed.
    const isLate = isBeside(sweep) ? isWokenSinceBeside : isWoken;
    if (owes === "nothing" || isLate) return owes;
    const isFar = sweep?.reachMs === null && answer.hasSwept;
    missing = isFar ? 0 : Math.max(0, missing - answer.jobs.length);
    if (sweep === undefined || !answer.hasSwept) return owes;
    return missing === 0 ? "nothing" : "far";
  };

  return {
    next(nowMs, room, hasBacklog) {
      const isFar = isFarDue(nowMs, room);
      if (isFar) isAskedSinceFar = false;
      const isDue = isFar || nowMs >= nextNearMs;
      const sweep = {
        reachMs: isFar ? null : NEAR_REACH_MS,
        // No turns among workers where something is sure to be found.
        exclusive: hasBacklog && !(isFar && isSure(room)),
        suspects: suspectsFor(room),
      };
      if (isFar && leavesBeside(room)) {
        beside = sweep;
        isWokenSinceBeside = false;
      } else isWoken = false;
      return isDue ? sweep : undefined;
    },
    passBy() {
      isWoken = false;
    },
    dueMs: (room) =>
      Math.min(farDueMs(room), owes === "near" ? nextNearMs : Number.POSITIVE_INFINITY),
    isBeside,
    hasBeside: () => beside !== undefined,
    learn(request, answer, nowMs, hasBacklog) {
      rest(request, answer, nowMs, hasBacklog);
      learnOfPassed(request, answer);
      learnOfUnsearched(request, answer);
      owes = owedAfter(request, answer);
      if (isBeside(request.sweep)) beside = undefined;
    },
    forget(sweep, error) {
      if (sweep !== undefined && error.isRefused) restOfRefused(sweep, error);
      if (!isBeside(sweep)) return;
      beside = undefined;
      // Where nobody was heard, the next one does not depend on the listening connection, which may be what failed.
      if (!error.isRefused) farTookMs = 0;
    },
    wake(jobs) {
      isWoken = true;
      isWokenSinceBeside = true;
      missing += jobs;
      owes = "near";
    },
    lookFar() {
      mustLookFar = true;
      isAskedSinceFar = true;
    },
    passedPriority: () => passedPriority,
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

/** A sweep looks below the floors of all queues of a priority and at queues without one, then above, then at the next priority. */
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
