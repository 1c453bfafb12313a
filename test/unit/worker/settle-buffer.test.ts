import type { QueueEvent } from "drizzle-queue";
import { expect, test } from "vitest";
import type { SettleAnswer } from "../../../src/queries/settle-jobs.js";
import { createSettleBuffer } from "../../../src/worker/settle-buffer.js";
import { heldJob as held } from "../../support/outcomes.js";

function buffer(retention: "keep" | 0 = "keep") {
  const settled: number[] = [];
  const lost: number[] = [];
  const events: QueueEvent[] = [];
  const settles = createSettleBuffer({
    retention,
    isBusy: () => true,
    onSettled: (job) => settled.push(job.job.id),
    onLost: (job) => lost.push(job.job.id),
    emit: (event) => events.push(event),
  });
  return { settles, settled, lost, events };
}

const done = { kind: "done", result: null, by: "handler" } as const;
const nothing = new Map<number, SettleAnswer>();
const violation = (code: string) => Object.assign(new Error("refused"), { code });

test("outcomes gather for a moment, unless a statement leaves anyhow", () => {
  const { settles } = buffer();
  settles.add(held(1), done);
  expect(settles.take(performance.now(), false)).toBeUndefined();
  settles.add(held(2), done);
  expect(settles.take(performance.now(), true)).toHaveLength(2);
  expect(settles.size()).toBe(0);
});

test("what the answer does not name is settled", () => {
  const { settles, settled, events } = buffer();
  settles.add(held(1), done);
  settles.answered(settles.take(0, true) ?? [], nothing);
  expect(settled).toEqual([1]);
  expect(events).toMatchObject([{ type: "job.done", jobId: 1, by: "handler" }]);
});

test("a locked row is tried again, later", () => {
  const { settles, settled, lost } = buffer();
  settles.add(held(1), done);
  const answeredMs = performance.now();
  settles.answered(settles.take(0, true) ?? [], new Map([[1, "busy"]]));
  expect([settled, lost]).toEqual([[], []]);
  expect(settles.nextMs()).toBeGreaterThanOrEqual(answeredMs + 25);
  expect(settles.take(performance.now() + 1_000, true)).toHaveLength(1);
});

test("a row that another attempt holds is lost, and never forced", () => {
  const { settles, settled, lost } = buffer();
  settles.add(held(1), done);
  settles.answered(settles.take(0, true) ?? [], new Map([[1, "lost"]]));
  expect([settled, lost]).toEqual([[], [1]]);
  expect(settles.size()).toBe(0);
});

test("after a lost answer, a row that has ended at our version was ended by us", () => {
  const { settles, settled, lost } = buffer();
  settles.add(held(1), done);
  const batch = settles.take(0, true) ?? [];
  expect(settles.errored(batch, new Error("Connection terminated"), true)).toBe(false);
  settles.answered(settles.take(0, true) ?? [], new Map([[1, "settled"]]));
  expect([settled, lost]).toEqual([[1], []]);
});

test("without a lost answer, a row that has ended was ended by somebody else", () => {
  const { settles, settled, lost } = buffer();
  settles.add(held(1), done);
  settles.answered(settles.take(0, true) ?? [], new Map([[1, "settled"]]));
  expect([settled, lost]).toEqual([[], [1]]);
});

test("one row that the server refuses is singled out by halving", () => {
  const { settles, settled } = buffer(0);
  for (let id = 1; id <= 8; id += 1) settles.add(held(id), done);
  const sizes: number[] = [];
  const goesOn: boolean[] = [];
  let batch = settles.take(0, true);
  while (batch !== undefined) {
    sizes.push(batch.length);
    const bad = batch.find(({ item }) => item.id === 6 && item.settlement.way === "remove");
    if (bad === undefined) settles.answered(batch, nothing);
    else goesOn.push(settles.errored(batch, violation("23503"), true));
    batch = settles.take(0, true);
  }
  expect(settled.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(sizes[0]).toBe(8);
  // Halved three times, and then the row alone asks for less.
  expect(goesOn).toEqual([true, true, true, true]);
});

test("what travelled with a claim is sent by itself before it is judged: the claim may be to blame", () => {
  const { settles, settled } = buffer();
  settles.add(held(1), done);
  const batch = settles.take(0, true) ?? [];
  expect(settles.errored(batch, violation("22003"), false)).toBe(true);
  expect(settles.hasRefused()).toBe(true);
  const again = settles.take(0, false) ?? [];
  expect(again[0]?.item.settlement).toEqual({ way: "complete" });
  settles.answered(again, nothing);
  expect(settled).toEqual([1]);
});

test("an outcome that cannot be stored ends as a failed job with plain text", () => {
  const { settles } = buffer();
  settles.add(held(1), { ...done, result: '"x"' });
  settles.errored(settles.take(0, true) ?? [], violation("22P05"), true);
  const [reduced] = settles.take(0, true) ?? [];
  expect(reduced?.item.settlement).toMatchObject({ way: "end", status: "failed", result: null });
});

test("what was lost while it waited does not leave", () => {
  const { settles } = buffer();
  const job = held(1);
  settles.add(job, done);
  job.phase = "over";
  expect(settles.take(0, true)).toBeUndefined();
  expect(settles.size()).toBe(0);
});

test("a part of a refused batch of which all was lost is passed over", () => {
  const { settles } = buffer();
  const jobs = [1, 2, 3, 4].map(held);
  for (const job of jobs) settles.add(job, done);
  settles.errored(settles.take(0, true) ?? [], violation("22P05"), true);
  for (const job of jobs.slice(0, 2)) job.phase = "over";
  const rest = settles.take(0, true) ?? [];
  expect(rest.map(({ held: { job } }) => job.id)).toEqual([3, 4]);
  settles.errored(rest, violation("22P05"), true);
  for (const job of jobs) job.phase = "over";
  expect(settles.take(0, true)).toBeUndefined();
  expect(settles.hasRefused()).toBe(false);
});
