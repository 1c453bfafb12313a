import { defineJob, defineJobs, type QueueEvent } from "drizzle-queue";
import { expect, test } from "vitest";
import { z } from "zod";
import type { ClaimedJob } from "../../../src/queries/claimed-row.js";
import type { HeldJob } from "../../../src/worker/held-job.js";
import { createHoldings } from "../../../src/worker/holdings.js";

const claimed = (leaseVersion: number): ClaimedJob => ({
  id: 1,
  queue: "default",
  name: "report",
  priority: 5,
  attempts: leaseVersion,
  maxAttempts: 10,
  leaseVersion,
  expiredLeases: leaseVersion - 1,
  idempotencyKey: null,
  payload: "{}",
  place: { atUs: 0, id: 1 },
  createdMs: 0,
  isProcessed: false,
  isRecovered: leaseVersion > 1,
});

const answerWith = (job: ClaimedJob) => ({
  jobs: [job],
  ended: [],
  nowUs: 0,
  nextDueUs: null,
  hasSwept: true,
  isFull: false,
  passedOver: undefined,
});

test("a job that this very worker claims anew is told to end where it still runs", () => {
  const running: HeldJob[] = [];
  const events: QueueEvent[] = [];
  const holdings = createHoldings({
    concurrency: 2,
    shortestLeaseMs: 30_000,
    retention: "keep",
    jobs: defineJobs({ report: defineJob({ payload: z.object({}) }) }),
    workerId: "w",
    // Never ends.
    runJob: (held) => {
      held.phase = "running";
      running.push(held);
      return new Promise(() => {});
    },
    yields: () => false,
    onChange: () => undefined,
    onClaimed: () => undefined,
    emit: (event) => events.push(event),
  });
  holdings.take(answerWith(claimed(1)), 0);
  holdings.take(answerWith(claimed(2)), 1);
  expect(running.map(({ phase }) => phase)).toEqual(["over", "running"]);
  expect(running.map(({ abortReason }) => abortReason?.code)).toEqual(["LEASE_LOST", undefined]);
  expect(events.filter(({ type }) => type === "lease.lost")).toMatchObject([{ leaseVersion: 1 }]);
  expect([...holdings.all()].map(({ job }) => job.leaseVersion)).toEqual([2]);
});
