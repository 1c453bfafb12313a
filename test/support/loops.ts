import type { ClaimPair, ClaimRequest } from "../../src/queries/claim-request.js";
import { createAlarm } from "../../src/worker/alarm.js";
import { createClaimLoop } from "../../src/worker/claim-loop.js";
import { claimRequest } from "./claims.js";
import { quietBuffer } from "./outcomes.js";

/** A queue above its floor, the room of one slot, a near sweep, and a claim for them. */
export const pair: ClaimPair = { queue: "default", priority: 5, floor: { atUs: 7_000_000, id: 3 } };
export const room = { free: 1, ahead: 0, holdsSuspect: false };
export const sweep = { reachMs: 10_000, exclusive: false, suspects: 1 };

export const request = claimRequest({ pairs: [pair], free: 1 });

/** What a loop is made of. */
export type LoopOptions = Parameters<typeof createClaimLoop>[0];

/** A plan that always asks for the same, and learns nothing. */
export const planFor = (
  asked: ClaimRequest,
  change: Partial<LoopOptions["plan"]> = {},
): LoopOptions["plan"] => ({
  next: () => asked,
  nextMs: () => 0,
  isBeside: () => false,
  learn: () => undefined,
  forget: () => undefined,
  wake: () => undefined,
  look: () => undefined,
  lookFar: () => undefined,
  expect: () => undefined,
  yieldsTo: () => undefined,
  ...change,
});

/** A plan that asks for a far sweep beside first, and then always for the same. */
export function planWithSweep(far: ClaimRequest): LoopOptions["plan"] {
  let isFirst = true;
  return planFor(request, {
    next() {
      const asked = isFirst ? far : request;
      isFirst = false;
      return asked;
    },
    isBeside: (asked) => asked === far,
  });
}

/** A loop whose statements the test answers, and the outcomes that it settles. */
export function createLoop(
  asked: ClaimRequest,
  given: Pick<LoopOptions, "send"> & Partial<LoopOptions>,
) {
  const settles = quietBuffer();
  const loop = createClaimLoop({
    alarm: createAlarm(),
    plan: planFor(asked),
    settles,
    sendBeside: given.send,
    isBesideFree: () => true,
    releaseStrays: () => Promise.resolve(),
    room: () => room,
    onClaimed: () => undefined,
    emit: undefined,
    ...given,
  });
  return { loop, settles };
}
