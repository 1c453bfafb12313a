import { expect, test } from "vitest";
import type { ClaimedJob } from "../../src/queries/claimed-row.js";
import { createClaimPlan } from "../../src/worker/claim-plan.js";

/**
 * Found by the crash test: with a backlog, the jobs of a killed worker waited for
 * 20 s and more on a slow server. A sweep that took 300 ms rested for 2.7 s, though
 * it had filled all free slots with recovered jobs, and younger jobs took the slots.
 */
test("a sweep that fills the free slots with recovered jobs is followed by another at once", () => {
  const plan = createClaimPlan({
    workerId: "worker",
    queues: ["default"],
    names: ["report"],
    leaseMs: 3_000,
    leaseMsByName: {},
    pollIntervalMs: 1_000,
    pollsClosely: () => false,
  });
  const room = { free: 2, ahead: 10, holdsSuspect: false };
  const nowUs = 1_700_000_000_000_000;
  const answer = (jobs: readonly ClaimedJob[]) => ({
    jobs,
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
  plan.learn(sweep, answer([recovered(1, nowUs), recovered(2, nowUs)]), 5_000, 5_300);

  const next = plan.next(5_301, { ...room, free: 1 });
  expect(next?.sweep?.reachMs, "a sweep to the beginning").toBeNull();
});

function recovered(id: number, nowUs: number): ClaimedJob {
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
