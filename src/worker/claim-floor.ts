import type { ClaimPair, Place } from "../queries/claim-request.js";
import {
  type ClaimAnswer,
  type ClaimedJob,
  type PassedOver,
  takenInOrder,
} from "../queries/claimed-row.js";

/**
 * A floor remembers, for one queue and priority, up to where everything has
 * been claimed, so that no claim walks again over what others have left dead
 * there while some transaction keeps it from being cleaned (ADR 0010).
 *
 * It is one process's shortcut and never a matter of correctness: what lies
 * below is found by the sweeps.
 */

/** How far behind the present a floor stays: transactions that commit later than this are the sweeps'. */
const COMMIT_LAG_US = 1_000_000;

/** Every priority, first to last. */
const PRIORITIES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] as const;

/** The floors of all queues and priorities that a worker serves. */
export interface ClaimFloors {
  /** The pairs of the next claim: by priority, queues of equal priority taking turns. */
  nextPairs(): readonly ClaimPair[];
  /** Raises floors by what a claim of `pairs` found. */
  learn(pairs: readonly ClaimPair[], answer: ClaimAnswer): void;
}

/** Creates floors that know nothing yet: the first claim looks at everything. */
export function createClaimFloors(queues: readonly string[]): ClaimFloors {
  const floors = new Map<string, Place>();
  let turn = 0;
  return {
    nextPairs() {
      turn = (turn + 1) % queues.length;
      const inTurn = [...queues.slice(turn), ...queues.slice(0, turn)];
      return PRIORITIES.flatMap((priority) =>
        inTurn.map((queue) => ({
          queue,
          priority,
          floor: floors.get(keyOf(queue, priority)) ?? null,
        })),
      );
    },
    learn(pairs, answer) {
      const present = lowest({ atUs: answer.nowUs - COMMIT_LAG_US, id: 0 }, answer.passedOver);
      const taken = takenInOrder(answer);
      const giving = new Set(taken.map(({ queue, priority }) => keyOf(queue, priority)));
      const lastGiving = pairs.findLast((pair) => giving.has(keyOf(pair.queue, pair.priority)));
      const tips = tipsOf(taken);
      const isSearched = isSearchedBefore(pairs, lastGiving, answer.hasSwept);
      for (const [index, pair] of pairs.entries()) {
        const key = keyOf(pair.queue, pair.priority);
        const tip = tips.get(key);
        const isDone = !answer.isFull || isSearched(pair, index);
        const reached = isDone ? present : tip === undefined ? undefined : lower(tip, present);
        const floor = floors.get(key);
        if (reached !== undefined && (floor === undefined || isAbove(reached, floor)))
          floors.set(key, reached);
      }
    },
  };
}

/**
 * Tells which pairs were searched to their end before the last one that gave a job. A sweep looks
 * below the floors of all queues of a priority first: of these none is known to be searched.
 */
function isSearchedBefore(
  pairs: readonly ClaimPair[],
  lastGiving: ClaimPair | undefined,
  hasSwept: boolean,
): (pair: ClaimPair, index: number) => boolean {
  if (lastGiving === undefined) return () => false;
  if (hasSwept) return ({ priority }) => priority < lastGiving.priority;
  const end = pairs.indexOf(lastGiving);
  return (_, index) => index < end;
}

/** A separator that no queue name holds. */
const keyOf = (queue: string, priority: number): string => `${queue}\0${priority}`;

/**
 * The furthest places that were claimed. Where lost jobs were taken there are often more, which
 * only sweeps see, and these look below the floors first: a lost job raises none.
 */
function tipsOf(taken: readonly ClaimedJob[]): Map<string, Place> {
  const tips = new Map<string, Place>();
  for (const job of taken) {
    if (job.isRecovered) continue;
    const key = keyOf(job.queue, job.priority);
    const tip = tips.get(key);
    if (tip === undefined || isAbove(job.place, tip)) tips.set(key, job.place);
  }
  return tips;
}

/** A job that was passed over is still to be seen by the next claim. */
const lowest = (present: Place, passedOver: PassedOver | undefined): Place =>
  passedOver === undefined
    ? present
    : lower(present, { atUs: passedOver.place.atUs, id: passedOver.place.id - 1 });

/** Whether `a` comes after `b`. */
export const isAbove = (a: Place, b: Place): boolean =>
  a.atUs > b.atUs || (a.atUs === b.atUs && a.id > b.id);

const lower = (a: Place, b: Place): Place => (isAbove(a, b) ? b : a);
