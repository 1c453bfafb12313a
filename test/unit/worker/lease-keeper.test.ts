import { defineJob } from "drizzle-queue";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { z } from "zod";
import { type HeldJob, holdJob } from "../../../src/worker/held-job.js";
import { createLeaseKeeper } from "../../../src/worker/lease-keeper.js";
import { claimedJob } from "../../support/claims.js";

beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => vi.useRealTimers());

const job = claimedJob({ name: "note" });

test("renewals that error are tried again ever later, and the lease is given up when it is over", async () => {
  const held = holdJob(
    job,
    defineJob({ payload: z.object({}), leaseMs: 9_000 }),
    performance.now(),
  );
  const waits: number[] = [];
  const lost: [HeldJob, string, number][] = [];
  let holds: HeldJob[] = [held];
  let calls = 0;
  const keeper = createLeaseKeeper({
    held: () => holds,
    renew: () => {
      calls += 1;
      return Promise.reject(new Error("remaining connection slots are reserved"));
    },
    onLost: (gone, noticedBy) => {
      lost.push([gone, noticedBy, performance.now()]);
      gone.phase = "over";
      holds = [];
    },
    onTimedOut: () => undefined,
    onCancelled: () => undefined,
    isIdle: () => holds.length === 0,
    onTick: () => undefined,
    onError: (_error, retryInMs) => waits.push(retryInMs),
    emit: undefined,
  });
  const startedAt = performance.now();
  keeper.watch();
  await vi.advanceTimersByTimeAsync(2_900);
  expect(calls).toBe(0);
  await vi.advanceTimersByTimeAsync(7_000);
  keeper.stop();
  expect(calls).toBeGreaterThan(5);
  expect(calls).toBeLessThan(14);
  expect(waits.slice(0, 3).map((ms) => Math.floor(Math.log2(ms / 50)))).toEqual([1, 2, 3]);
  expect(Math.max(...waits)).toBeLessThanOrEqual(1_200);
  expect(lost).toHaveLength(1);
  expect(lost[0]?.[1]).toBe("deadline");
  expect((lost[0]?.[2] ?? 0) - startedAt).toBeGreaterThanOrEqual(9_000);
  expect((lost[0]?.[2] ?? 0) - startedAt).toBeLessThan(9_100);
});

test("sleeps while nothing is held, and looks again when told of a job", async () => {
  let looks = 0;
  let isIdle = false;
  const keeper = createLeaseKeeper({
    held: () => [],
    renew: () => Promise.resolve(new Map()),
    onLost: () => undefined,
    onTimedOut: () => undefined,
    onCancelled: () => undefined,
    isIdle: () => isIdle,
    onTick: () => {
      looks += 1;
    },
    onError: () => undefined,
    emit: undefined,
  });
  keeper.watch();
  keeper.watch();
  await vi.advanceTimersByTimeAsync(520);
  expect(looks).toBe(10);
  isIdle = true;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(looks).toBe(10);
  expect(vi.getTimerCount()).toBe(0);
  isIdle = false;
  keeper.watch();
  await vi.advanceTimersByTimeAsync(520);
  expect(looks).toBe(20);
  keeper.stop();
  expect(vi.getTimerCount()).toBe(0);
});

/** A keeper of jobs with a lease of a second, whose renewals are answered when the test says so. */
function createKeeper(count: number) {
  const definition = defineJob({ payload: z.object({}), leaseMs: 1_000 });
  const holds = Array.from({ length: count }, (_, id) =>
    holdJob(claimedJob({ name: "note", id }), definition, performance.now()),
  );
  const lost: HeldJob[] = [];
  const renewed: number[] = [];
  const answers: (() => void)[] = [];
  const keeper = createLeaseKeeper({
    held: () => holds,
    renew(leases) {
      renewed.push(leases.length);
      return new Promise((resolve) => answers.push(() => resolve(new Map())));
    },
    onLost: (gone) => lost.push(gone),
    onTimedOut: () => undefined,
    onCancelled: () => undefined,
    isIdle: () => false,
    onTick: () => undefined,
    onError: () => undefined,
    emit: undefined,
  });
  return { keeper, lost, renewed, answers };
}

test("a renewal that was answered while the event loop was blocked keeps its lease", async () => {
  const { keeper, lost, answers } = createKeeper(1);
  keeper.watch();
  await vi.advanceTimersByTimeAsync(400);
  expect(answers).toHaveLength(1);
  // As a socket is read: after the timers, before what the timers put off.
  setImmediate(() => answers[0]?.());
  // Blocked: the clock goes on, and then the timer that is due fires.
  vi.spyOn(performance, "now").mockReturnValue(performance.now() + 700);
  vi.advanceTimersByTime(60);
  await new Promise((resolve) => setImmediate(resolve));
  keeper.stop();
  expect(lost).toEqual([]);
  vi.restoreAllMocks();
});

test("more leases than one statement takes are renewed one statement after the other, not one a tick", async () => {
  const { keeper, renewed, answers } = createKeeper(2_500);
  keeper.watch();
  await vi.advanceTimersByTimeAsync(351);
  for (let statement = 0; statement < 3; statement += 1) {
    answers.at(-1)?.();
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
  }
  keeper.stop();
  expect(renewed).toEqual([1_000, 1_000, 500]);
});
