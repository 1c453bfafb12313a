import { expect, test } from "vitest";
import { walkAll } from "./interleavings/walk-all.js";

test("every invariant holds in each order of two actors' statements, and in some of three", async () => {
  const { orders, violations } = await walkAll();
  expect(violations.slice(0, 5)).toEqual([]);
  expect(orders).toBeGreaterThan(600);
});
