import { expect, test } from "vitest";
import { createLookAhead } from "../../../src/worker/look-ahead.js";

const lookAhead = (concurrency = 10, shortestLeaseMs = 30_000) =>
  createLookAhead({ concurrency, shortestLeaseMs });

/** Shows it many handlers of one kind. */
function observeMany(ahead: ReturnType<typeof lookAhead>, durationMs: number): void {
  for (let run = 0; run < 200; run += 1) ahead.observe(durationMs, 100);
}

test("fetches nothing ahead before a handler has shown how long it takes", () => {
  expect(lookAhead(1_000).size()).toBe(0);
});

test("holds what fifty milliseconds will use up", () => {
  const ahead = lookAhead(10);
  observeMany(ahead, 5);
  expect(ahead.size()).toBe(99);
});

test("does not believe a single short handler: of the first ones the shortest end first", () => {
  const ahead = lookAhead(10);
  ahead.observe(0.1, 100);
  expect(ahead.size()).toBe(0);
});

test("hoards nothing for long handlers", () => {
  const ahead = lookAhead(10);
  ahead.observe(60_000, 100);
  expect(ahead.size()).toBe(0);
});

test("shrinks at once when handlers turn slow", () => {
  const ahead = lookAhead(10);
  observeMany(ahead, 0.1);
  ahead.observe(10_000, 100);
  expect(ahead.size()).toBe(0);
});

test("is bounded whatever the speed, and by the size of the payloads", () => {
  const ahead = lookAhead(1_000);
  observeMany(ahead, 0);
  expect(ahead.size()).toBe(800);
  const heavy = lookAhead(1_000);
  heavy.observe(0, 1_000_000);
  expect(heavy.size()).toBe(4);
});

test("never holds more than a tenth of a lease will use up", () => {
  const ahead = lookAhead(10, 100);
  observeMany(ahead, 1);
  expect(ahead.size()).toBe(99);
});
