import type { ClaimAnswer } from "../../../src/queries/claimed-row.js";
import { createClaimPlan } from "../../../src/worker/claim-plan.js";
import { claimAnswer } from "../../support/claims.js";

/** Ten free slots. */
export const room = { free: 10, ahead: 0, holdsSuspect: false };
/** A sweep that found none. */
export const nothing = claimAnswer({ hasSwept: true });

/** Creates a plan that polls once a minute. */
export function createPlan(
  queues = ["default"],
  hasOtherConnection = true,
  change: Partial<Parameters<typeof createClaimPlan>[0]> = {},
) {
  return createClaimPlan({
    workerId: "w",
    queues,
    names: ["note"],
    leaseMs: 30_000,
    leaseMsByName: {},
    pollIntervalMs: 60_000,
    hasOtherConnection,
    pollsClosely: () => false,
    hasPausedQueues: () => false,
    ...change,
  });
}

type Plan = ReturnType<typeof createPlan>;

/** Claims at `nowMs`, which takes a millisecond; tells how far back it looked. */
export function claim(
  plan: Plan,
  nowMs: number,
  answer: ClaimAnswer = nothing,
  given = room,
): number | null | "no sweep" {
  const request = plan.next(nowMs, given);
  if (request === undefined) throw new Error(`No claim was due at ${nowMs} ms.`);
  plan.learn(request, { ...answer, hasSwept: request.sweep !== undefined }, nowMs + 1);
  return request.sweep === undefined ? "no sweep" : request.sweep.reachMs;
}
