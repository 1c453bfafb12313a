import { expect, test } from "vitest";
import type { ClaimedJob } from "../../src/queries/claimed-row.js";
import { createClaimPlan } from "../../src/worker/claim-plan.js";

/**
 * Found by the crash test: with a backlog, the jobs of a killed worker waited for
 * 20 s and more on a slow server. A sweep that took 300 ms rested for 2.7 s, though
 * it had filled all free slots with recovered jobs, and younger jobs took the slots.
 */
const room = { free: 2, ahead: 10, holdsSuspect: false };
const nowUs = 1_700_000_000_000_000;

/** A plan that has looked at everything once, and swept again after 5 s, with this outcome. */
function planAfterSweep(jobs: readonly ClaimedJob[]) {
  const plan = createClaimPlan({
    workerId: "worker",
    queues: ["default"],
    names: ["report"],
    leaseMs: 3_000,
    leaseMsByName: {},
    pollIntervalMs: 1_000,
    pollsClosely: () => false,
  });
  const answer = (found: readonly ClaimedJob[]) => ({
    jobs: found,
    exhausted: [],
    nowUs,
    nextDueUs: null,
    hasSwept: true,
  });
  // A first look finds the queue empty, which raises the floor to the present.
  const first = plan.next(0, room);
  if (first === undefined) throw new Error("A new plan begins with a claim.");
  plan.learn(first, answer([]), 0, 1);

  const sweep = plan.next(5_000, room);
  if (sweep === undefined) throw new Error("A claim is due after the poll interval.");
  plan.learn(sweep, answer(jobs), 5_000, 5_300);
  return plan;
}

test("a sweep that fills the free slots with recovered jobs is followed by another at once", () => {
  const plan = planAfterSweep([recovered(1), recovered(2)]);

  const next = plan.next(5_301, { ...room, free: 1 });
  expect(next?.sweep?.reachMs, "a sweep to the beginning").toBeNull();
});

test("nothing is fetched ahead while recovered jobs may be left: it would take their slots", () => {
  const plan = planAfterSweep([recovered(1), recovered(2)]);

  expect(plan.next(5_301, { ...room, free: 1 })).toMatchObject({ free: 1, ahead: 0 });
  expect(plan.nextMs({ ...room, free: 0 }), "until a slot is free").toBe(Infinity);
  expect(planAfterSweep([]).next(7_000, room)).toMatchObject({ free: 2, ahead: 10 });
});

function recovered(id: number): ClaimedJob {
  return {
    id,
    queue: "default",
    name: "report",
    priority: 5,
    attempts: 2,
    maxAttempts: 10,
    leaseVersion: 2,
    expiredLeases: 1,
    idempotencyKey: null,
    payload: "{}",
    place: { atUs: nowUs - 60_000_000, id },
    createdMs: 0,
    isProcessed: false,
    isRecovered: true,
  };
}
