import type { ClaimRequest } from "../../src/queries/claim-request.js";
import type { ClaimAnswer, ClaimedJob } from "../../src/queries/claimed-row.js";

/** A job as a claim gives it at its first attempt, with what a test wants different. */
export function claimedJob(change: Partial<ClaimedJob> = {}): ClaimedJob {
  const id = change.id ?? 1;
  return {
    id,
    queue: "default",
    name: "report",
    priority: 5,
    attempts: 1,
    maxAttempts: 10,
    leaseVersion: 1,
    expiredLeases: 0,
    idempotencyKey: null,
    payload: "{}",
    place: { atUs: 0, id },
    createdMs: 0,
    isProcessed: false,
    isRecovered: false,
    ...change,
  };
}

/** The answer of a claim that found nothing, with what a test wants different. */
export const claimAnswer = (change: Partial<ClaimAnswer> = {}): ClaimAnswer => ({
  jobs: [],
  ended: [],
  nowUs: 0,
  tookMs: 1,
  nextDueUs: null,
  hasSwept: false,
  isFull: false,
  passedOver: undefined,
  leavesDue: false,
  paused: [],
  ...change,
});

/** What a worker with ten free slots asks for, with what a test wants different. */
export const claimRequest = (change: Partial<ClaimRequest> = {}): ClaimRequest => ({
  workerId: "w",
  pairs: [{ queue: "default", priority: 5, floor: null }],
  names: ["report"],
  free: 10,
  ahead: 0,
  leaseMs: 30_000,
  leaseMsByName: {},
  sweep: undefined,
  peeks: false,
  hasBacklog: false,
  isPrompt: false,
  ...change,
});
