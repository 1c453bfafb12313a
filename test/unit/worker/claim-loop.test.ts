import { expect, test } from "vitest";
import type { ClaimPair, ClaimRequest } from "../../../src/queries/claim-jobs.js";
import { createAlarm } from "../../../src/worker/alarm.js";
import { createClaimLoop } from "../../../src/worker/claim-loop.js";
import { createSettleBuffer } from "../../../src/worker/settle-buffer.js";

const pair: ClaimPair = { queue: "default", priority: 5, floor: { atUs: 7_000_000, id: 3 } };
const room = { free: 1, ahead: 0, holdsSuspect: false };
const sweep = { reachMs: 10_000, exclusive: false, suspects: 1 };

/** Sends one claim whose answer is lost; tells where its jobs are then looked for. */
async function straysOf(asked: ClaimRequest["sweep"]): Promise<readonly ClaimPair[]> {
  const request: ClaimRequest = {
    workerId: "w",
    pairs: [pair],
    names: ["report"],
    free: 1,
    ahead: 0,
    leaseMs: 30_000,
    leaseMsByName: {},
    sweep: asked,
    peeks: false,
    wantsNextDue: false,
  };
  let looked: readonly ClaimPair[] = [];
  const loop = createClaimLoop({
    alarm: createAlarm(),
    plan: {
      next: () => request,
      nextMs: () => 0,
      learn: () => undefined,
      wake: () => undefined,
      expect: () => undefined,
      yields: () => false,
    },
    settles: createSettleBuffer({
      retention: "keep",
      isBusy: () => false,
      onSettled: () => undefined,
      onLost: () => undefined,
      emit: undefined,
    }),
    send: () => Promise.reject(new Error("Connection terminated")),
    async releaseStrays(pairs) {
      looked = pairs;
      loop.end();
    },
    room: () => room,
    onClaimed: () => undefined,
    emit: undefined,
  });
  await loop.run();
  return looked;
}

test("jobs of a claim whose answer was lost are looked for above its floors", async () => {
  expect(await straysOf(undefined)).toEqual([pair]);
});

test("those of a sweep are looked for below them, too", async () => {
  expect(await straysOf(sweep)).toEqual([pair, { ...pair, floor: null }]);
});
