import { expect, test } from "vitest";
import { createArrivals } from "../../../src/worker/arrivals.js";

function arrivalsByHand() {
  let nowMs = 0;
  const arrivals = createArrivals(() => nowMs);
  return {
    arrivals,
    /** Lets seconds pass in each of which `count` jobs arrive. */
    pass(seconds: number, count: number) {
      for (let second = 0; second < seconds; second += 1) {
        arrivals.observe(count);
        nowMs += 1_000;
      }
    },
  };
}

test("arrivals are rare at first", () => {
  expect(arrivalsByHand().arrivals.isFrequent()).toBe(false);
});

test("a steady stream of more than twenty a second becomes frequent, nobody having to ask", () => {
  const { arrivals, pass } = arrivalsByHand();
  pass(10, 100);
  expect(arrivals.isFrequent()).toBe(true);
});

test("between ten and twenty a second nothing changes", () => {
  const { arrivals, pass } = arrivalsByHand();
  pass(10, 15);
  expect(arrivals.isFrequent()).toBe(false);
  pass(10, 100);
  pass(10, 15);
  expect(arrivals.isFrequent()).toBe(true);
});

test("after a silence arrivals are rare again", () => {
  const { arrivals, pass } = arrivalsByHand();
  pass(10, 10_000);
  pass(3_600, 0);
  expect(arrivals.isFrequent()).toBe(false);
});
