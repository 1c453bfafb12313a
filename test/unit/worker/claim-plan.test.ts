import { describe, expect, test } from "vitest";
import type { ClaimAnswer } from "../../../src/queries/claimed-row.js";
import { createClaimPlan } from "../../../src/worker/claim-plan.js";
import { claimAnswer } from "../../support/claims.js";

const room = { free: 10, ahead: 0, holdsSuspect: false };
const nothing = claimAnswer({ hasSwept: true });

function createPlan() {
  return createClaimPlan({
    workerId: "w",
    queues: ["default"],
    names: ["note"],
    leaseMs: 30_000,
    leaseMsByName: {},
    pollIntervalMs: 60_000,
    pollsClosely: () => false,
  });
}

type Plan = ReturnType<typeof createPlan>;

/** Claims at `nowMs`, which takes a millisecond; tells how far back it looked. */
function claim(
  plan: Plan,
  nowMs: number,
  answer: ClaimAnswer = nothing,
): number | null | "no sweep" {
  const request = plan.next(nowMs, room);
  if (request === undefined) throw new Error(`No claim was due at ${nowMs} ms.`);
  plan.learn(request, { ...answer, hasSwept: request.sweep !== undefined }, nowMs + 1);
  return request.sweep === undefined ? "no sweep" : request.sweep.reachMs;
}

describe("a plan that polls once a minute", () => {
  test("looks at everything first, and then sleeps", () => {
    const plan = createPlan();
    expect(claim(plan, 0)).toBeNull();
    expect(plan.nextMs(room)).toBeGreaterThanOrEqual(60_000);
  });

  test("looks below its floor after a wake-up, near first and then to the beginning", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.wake();
    expect(claim(plan, 5)).toBe("no sweep");
    const nearAtMs = plan.nextMs(room);
    expect(nearAtMs).toBeLessThan(200);
    expect(claim(plan, nearAtMs)).toBe(10_000);
    const farAtMs = plan.nextMs(room);
    expect(farAtMs).toBeLessThan(200);
    expect(claim(plan, Math.max(farAtMs, nearAtMs + 2))).toBeNull();
    expect(plan.nextMs(room)).toBeGreaterThanOrEqual(60_000);
  });

  test("owes a look for a wake-up that came while a claim was under way", () => {
    const plan = createPlan();
    const request = plan.next(0, room);
    plan.wake();
    if (request !== undefined) plan.learn(request, nothing, 1);
    expect(plan.nextMs(room)).toBe(0);
    expect(claim(plan, 1)).toBe("no sweep");
    expect(plan.nextMs(room)).toBeLessThan(200);
  });

  test("looks again when a job of its own is due again", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.expect(500);
    plan.expect(Number.POSITIVE_INFINITY);
    expect(plan.nextMs(room)).toBe(500);
  });

  test("rests after a sweep by what it cost the server, not by how long its answer travelled", () => {
    const plan = createPlan();
    const request = plan.next(0, room);
    // A second in the network.
    if (request !== undefined) plan.learn(request, nothing, 1_000);
    plan.wake();
    claim(plan, 1_001);
    expect(plan.nextMs(room)).toBeLessThan(1_200);
  });
});
