import { expect, test } from "vitest";
import { createPruning } from "../../src/maintenance/pruning.js";
import type { OldRow } from "../../src/queries/prune-rows.js";

const REFUSED = new Error("a foreign key holds it");

/** Old rows as a table has them, some of them held; a clock that only moves by what is done. */
function table(options: { rows: number; held?: readonly number[]; rowMs?: number }) {
  const { held = [], rowMs = 0 } = options;
  const rows = new Set(Array.from({ length: options.rows }, (_, index) => index + 1));
  const searches: { readonly from: number; readonly limit: number }[] = [];
  const deletes: (readonly number[])[] = [];
  const sleeps: number[] = [];
  const pruned: number[] = [];
  const state = { nowMs: 0, findMs: 0, isStopped: false, error: undefined as Error | undefined };
  const pruning = createPruning({
    async find(after, limit) {
      expect(Number.isInteger(limit)).toBe(true);
      state.nowMs += state.findMs;
      searches.push({ from: after?.id ?? 0, limit });
      const found = [...rows].filter((id) => id > (after?.id ?? 0)).slice(0, limit);
      return found.map((id): OldRow => ({ id, atUs: id }));
    },
    async remove(ids) {
      expect(ids).not.toEqual([]);
      deletes.push(ids);
      state.nowMs += ids.length * rowMs;
      if (state.error !== undefined) throw state.error;
      if (ids.some((id) => held.includes(id))) throw REFUSED;
      for (const id of ids) rows.delete(id);
      return ids.length;
    },
    isRefusal: (error) => error === REFUSED,
    onPruned: (count) => pruned.push(count),
    isStopped: () => state.isStopped,
    async sleep(delayMs) {
      sleeps.push(delayMs);
    },
    nowMs: () => state.nowMs,
  });
  return { pruning, rows, searches, deletes, sleeps, pruned, state };
}

test("deletes all that is old, in batches that grow to a thousand", async () => {
  const { pruning, rows, deletes, pruned } = table({ rows: 5_000 });
  await pruning.pass();
  expect(rows.size).toBe(0);
  expect(deletes.map(({ length }) => length)).toEqual([
    20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000, 740,
  ]);
  expect(pruned.reduce((sum, count) => sum + count, 0)).toBe(5_000);
});

test("takes half as many after each slow look, down to twenty, and grows again", async () => {
  const { pruning, searches, state } = table({ rows: 0 });
  for (let pass = 0; pass < 7; pass += 1) await pruning.pass();
  state.findMs = 101;
  for (let pass = 0; pass < 8; pass += 1) await pruning.pass();
  state.findMs = 0;
  await pruning.pass();
  await pruning.pass();
  expect(searches.slice(6).map(({ limit }) => limit)).toEqual([
    1_000, 1_000, 500, 250, 125, 62, 31, 20, 20, 20, 40,
  ]);
});

test("begins each search where the last one ended", async () => {
  const { pruning, searches, rows } = table({ rows: 50 });
  await pruning.pass();
  rows.add(51);
  await pruning.pass();
  expect(searches.map(({ from }) => from)).toEqual([0, 20, 50]);
  expect(rows.size).toBe(0);
});

test("rests four times as long as a batch takes, and takes fewer when they are slow", async () => {
  const { pruning, searches, sleeps } = table({ rows: 190, rowMs: 3 });
  await pruning.pass();
  expect(searches.map(({ limit }) => limit)).toEqual([20, 40, 20, 40, 20, 40, 20]);
  expect(sleeps.slice(0, 2)).toEqual([240, 480]);
});

test("a row that is held keeps no other one", async () => {
  const { pruning, rows } = table({ rows: 500, held: [7, 8, 333] });
  await pruning.pass();
  expect([...rows]).toEqual([7, 8, 333]);
});

test("held rows are left alone for an hour, then tried again", async () => {
  const held = [3];
  const { pruning, rows, state, searches } = table({ rows: 10, held });
  await pruning.pass();
  held.pop();
  state.nowMs = 3_500_000;
  await pruning.pass();
  expect([...rows]).toEqual([3]);
  state.nowMs = 3_600_000;
  await pruning.pass();
  await pruning.pass();
  expect(rows.size).toBe(0);
  expect(searches.at(-1)?.from).toBe(0);
});

test("ten held rows in a row end the pass with the database's error, and the next one goes on behind their batch", async () => {
  const all = Array.from({ length: 620 }, (_, index) => index + 1);
  const { pruning, rows, deletes } = table({ rows: 660, held: all });
  for (const _ of [1, 2, 3, 4, 5]) await expect(pruning.pass()).rejects.toBe(REFUSED);
  // Ten rows, and what it takes to find them: a log that fills would help nobody.
  expect(deletes.length).toBeLessThan(5 * 30);
  await pruning.pass();
  expect([...rows]).toEqual(all);
});

test("another error ends the pass at once, and the next one begins with the same rows", async () => {
  const { pruning, rows, deletes, state } = table({ rows: 60 });
  state.error = new Error("connection lost");
  await expect(pruning.pass()).rejects.toBe(state.error);
  expect(deletes).toHaveLength(1);
  state.error = undefined;
  await pruning.pass();
  expect(rows.size).toBe(0);
});

test("once stopped it begins no further batch, nor the other half of one", async () => {
  const { pruning, deletes, state } = table({ rows: 100, held: [1], rowMs: 1 });
  const passing = pruning.pass();
  state.isStopped = true;
  await passing;
  expect(deletes.length).toBeLessThanOrEqual(1);
});
