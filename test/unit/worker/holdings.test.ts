import { defineJob, defineJobs, type QueueEvent } from "drizzle-queue";
import { expect, test } from "vitest";
import { z } from "zod";
import type { ClaimedJob } from "../../../src/queries/claimed-row.js";
import type { HeldJob } from "../../../src/worker/held-job.js";
import { createHoldings } from "../../../src/worker/holdings.js";
import { claimAnswer, claimedJob } from "../../support/claims.js";

const claimed = (leaseVersion: number) =>
  claimedJob({
    attempts: leaseVersion,
    leaseVersion,
    expiredLeases: leaseVersion - 1,
    isRecovered: leaseVersion > 1,
  });

const answerWith = (job: ClaimedJob) => claimAnswer({ jobs: [job], hasSwept: true });

const options = () => ({
  concurrency: 2,
  shortestLeaseMs: 30_000,
  retention: "keep" as const,
  jobs: defineJobs({ report: defineJob({ payload: z.object({}) }) }),
  workerId: "w",
  yieldsTo: () => undefined,
  isPaused: () => false,
  onChange: () => undefined,
  onClaimed: () => undefined,
  emit: undefined,
});

test("a job that this very worker claims anew is told to end where it still runs", () => {
  const running: HeldJob[] = [];
  const events: QueueEvent[] = [];
  const holdings = createHoldings({
    ...options(),
    // Never ends.
    runJob: (held) => {
      held.phase = "running";
      running.push(held);
      return new Promise(() => {});
    },
    emit: (event) => events.push(event),
  });
  holdings.take(answerWith(claimed(1)), 0, 2);
  holdings.take(answerWith(claimed(2)), 1, 1);
  expect(running.map(({ phase }) => phase)).toEqual(["over", "running"]);
  expect(running.map(({ abortReason }) => abortReason?.code)).toEqual(["LEASE_LOST", undefined]);
  expect(events.filter(({ type }) => type === "lease.lost")).toMatchObject([{ leaseVersion: 1 }]);
  expect([...holdings.all()].map(({ job }) => job.leaseVersion)).toEqual([2]);
});

test("a suspect keeps others of its kind away until it has run for two seconds", () => {
  const running: HeldJob[] = [];
  const holdings = createHoldings({
    ...options(),
    runJob: (held) => {
      held.phase = "running";
      held.startedAtMs = performance.now();
      running.push(held);
      return new Promise(() => {});
    },
  });
  expect(holdings.room().holdsSuspect).toBe(false);
  holdings.take(answerWith({ ...claimed(3), expiredLeases: 2 }), 0, 2);
  expect(holdings.room().holdsSuspect).toBe(true);
  for (const held of running) held.startedAtMs -= 2_000;
  expect(holdings.room().holdsSuspect).toBe(false);
});
