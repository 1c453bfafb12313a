import type { QueueEvent } from "drizzle-queue";
import { describe, expect, test } from "vitest";
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

test("after a lost answer, a job that was cancelled for its error is told as that", () => {
  const { settles, settled, events } = buffer();
  settles.add(held(1), { kind: "fail", error: new Error("no luck") });
  const batch = settles.take(0, true) ?? [];
  settles.errored(batch, new Error("Connection terminated"), true);
  settles.answered(settles.take(0, true) ?? [], new Map([[1, "was_cancelled"]]));
  expect(settled).toEqual([1]);
  expect(events).toMatchObject([{ type: "job.cancelled", error: { message: "no luck" } }]);
});

test("a job that somebody has cancelled by hand is lost to whoever held it", () => {
  const { settles, settled, lost } = buffer();
  settles.add(held(1), { kind: "fail", error: new Error("no luck") });
  settles.answered(settles.take(0, true) ?? [], new Map([[1, "was_cancelled"]]));
  expect([settled, lost]).toEqual([[], [1]]);
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

test("one row that the server refuses is singled out by cutting its batch up", () => {
  const { settles, settled } = buffer(0);
  for (let id = 1; id <= 100; id += 1) settles.add(held(id), done);
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
  expect(settled.toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 100 }, (_, index) => index + 1),
  );
  // Into tens, threes and single rows, of which the bad one asks for less.
  expect(sizes).toEqual([100, ...Array<number>(10).fill(10), 3, 3, 3, 1, 1, 1, 1, 1]);
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

describe("an outcome that waits for a lock which cannot be skipped", () => {
  /** Sends until nothing is left to send now; the lock holds up the jobs of `locked`. */
  function send(
    settles: ReturnType<typeof buffer>["settles"],
    locked: readonly number[],
    nowMs: number,
  ) {
    const sent: number[][] = [];
    for (
      let batch = settles.take(nowMs, true);
      batch !== undefined;
      batch = settles.take(nowMs, true)
    ) {
      sent.push(batch.map(({ item: { id } }) => id));
      if (batch.some(({ item: { id } }) => locked.includes(id)))
        settles.errored(batch, violation("55P03"), batch.length === 1);
      else settles.answered(batch, nothing);
    }
    return sent;
  }

  test("is singled out, and holds up no other", () => {
    const { settles, settled, lost } = buffer();
    for (let id = 1; id <= 9; id += 1) settles.add(held(id), done);
    expect(send(settles, [5], performance.now())).toEqual([
      [1, 2, 3, 4, 5, 6, 7, 8, 9],
      [1, 2, 3],
      [4, 5, 6],
      [7, 8, 9],
      [4],
      [5],
      [6],
    ]);
    expect(settled).toHaveLength(8);
    expect(lost).toEqual([]);
    expect(settles.size()).toBe(1);
    expect(settles.hasRefused()).toBe(false);
    settles.add(held(10), done);
    expect(send(settles, [5], performance.now())).toEqual([[10]]);
  });

  test("is tried again by itself after five seconds, one at a time, until it goes through", () => {
    const { settles, settled } = buffer();
    for (const id of [1, 2]) settles.add(held(id), done);
    send(settles, [1, 2], performance.now());
    const laterMs = performance.now() + 6_000;
    expect(settles.nextMs()).toBeLessThan(laterMs);
    expect(settles.nextMs()).toBeGreaterThan(performance.now() + 4_000);
    expect(send(settles, [], laterMs)).toEqual([[1], [2]]);
    expect(settled).toEqual([1, 2]);
    expect(settles.nextMs()).toBe(Number.POSITIVE_INFINITY);
  });

  test("alone with a claim it is not blamed: the claim may have waited", () => {
    const { settles, settled } = buffer();
    settles.add(held(1), done);
    settles.errored(settles.take(0, true) ?? [], violation("55P03"), false);
    expect(settles.hasRefused()).toBe(true);
    settles.answered(settles.take(0, false) ?? [], nothing);
    expect(settled).toEqual([1]);
  });

  test("is tried at once when the end is near", () => {
    const { settles } = buffer();
    settles.add(held(1), done);
    send(settles, [1], performance.now());
    expect(settles.take(performance.now(), true)).toBeUndefined();
    settles.hurry();
    expect(settles.take(performance.now(), true)).toHaveLength(1);
  });

  test("is dropped once its lease is lost", () => {
    const { settles } = buffer();
    const job = held(1);
    settles.add(job, done);
    send(settles, [1], performance.now());
    job.phase = "over";
    expect(send(settles, [], performance.now() + 6_000)).toEqual([]);
    expect(settles.size()).toBe(0);
  });
});

test("a statement carries four million characters of results, and at least one outcome", () => {
  const { settles } = buffer();
  const result = "x".repeat(3_000_000);
  for (let id = 1; id <= 3; id += 1) settles.add(held(id), { ...done, result });
  settles.add(held(4), { ...done, result: "x".repeat(9_000_000) });
  settles.add(held(5), done);
  const sizes = [1, 2, 3].map(() => settles.take(0, true)?.length);
  expect(sizes).toEqual([2, 2, 1]);
});
