import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { z } from "zod";
import type { ClaimedJob } from "../../../src/queries/claimed-row.js";
import { defineJob } from "../../../src/registry/define-job.js";
import { type HeldJob, holdJob } from "../../../src/worker/held-job.js";
import { createSlots } from "../../../src/worker/slots.js";
import { claimedJob } from "../../support/claims.js";

const definition = defineJob({ payload: z.object({}) });
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Slots whose handlers end when the test says so. */
function createTestSlots(
  concurrency: number,
  yieldsTo: () => number | undefined = () => undefined,
) {
  const started: number[] = [];
  const ends: (() => void)[] = [];
  const slots = createSlots({
    concurrency,
    run(held) {
      held.phase = "running";
      started.push(held.job.id);
      return new Promise((resolve) => ends.push(resolve));
    },
    yieldsTo,
    onStuck: () => undefined,
    onFree: () => undefined,
    emit: undefined,
  });
  const endAll = async (): Promise<void> => {
    for (const end of ends.splice(0)) end();
    await turn();
  };
  return { slots, started, endAll };
}

const held = (id: number, change: Partial<ClaimedJob> = {}): HeldJob =>
  holdJob(claimedJob({ id, ...change }), definition, 0);
const retry = (id: number, priority = 5) => held(id, { attempts: 2, priority });

test("what was claimed for a free slot starts in it, whoever was passed over", () => {
  const { slots, started } = createTestSlots(2, () => 0);
  slots.offer([held(1), retry(2), held(3)], 2);
  expect(started).toEqual([1, 2]);
  expect(slots.waiting()).toBe(1);
});

test("of more jobs than slots were free, those have one that may not wait, and then the first", () => {
  const { slots, started } = createTestSlots(2, () => 0);
  slots.offer([held(1), held(2), retry(3)], 2);
  expect(started).toEqual([1, 3]);
});

test("jobs that waited ahead do not take the slots that a claim was for", async () => {
  const { slots, started, endAll } = createTestSlots(3);
  slots.offer([held(1), held(2), held(3), held(4), held(5), held(6)], 3);
  expect(started).toEqual([1, 2, 3]);
  slots.offer([retry(7), retry(8), retry(9)], 3);
  await endAll();
  expect(started).toEqual([1, 2, 3, 7, 8, 9]);
});

test("a job ahead leaves a slot to one that was passed over, unless it is more urgent", async () => {
  let passedPriority: number | undefined;
  const { slots, started, endAll } = createTestSlots(1, () => passedPriority);
  slots.offer([held(1), held(2, { priority: 4 }), held(3, { priority: 5 }), held(4)], 1);
  passedPriority = 5;
  await endAll();
  expect(started).toEqual([1, 2]);
  expect(slots.free()).toBe(0);
  await endAll();
  expect(started).toEqual([1, 2]);
  expect(slots.free()).toBe(1);
  passedPriority = undefined;
  slots.offer([], 0);
  expect(started).toEqual([1, 2, 3]);
});

test("a line that never empties lets go of what has run", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const jobs: WeakRef<HeldJob>[] = [];
  const { slots, started, endAll } = createTestSlots(50);
  const total = 20_000;
  for (let id = 1; id <= total; ) {
    // Topped up while some still wait.
    for (const until = id + 50; id < until; id += 1) {
      const job = held(id);
      jobs.push(new WeakRef(job));
      slots.offer([job], id === 1 ? 50 : 0);
    }
    if (slots.waiting() > 200) await endAll();
  }
  expect(slots.waiting()).toBeGreaterThan(100);
  expect(started.length).toBeGreaterThan(total / 2);
  // A reference that was just made keeps its job for the rest of this turn.
  await turn();
  collectGarbage();
  expect(jobs.filter((job) => job.deref() !== undefined).length).toBeLessThan(2_000);
});
