import { expect, test } from "vitest";
import { createAlarm } from "../../../src/worker/alarm.js";

test("a ring ends the present sleep", async () => {
  const alarm = createAlarm();
  const asleep = alarm.sleep(Number.POSITIVE_INFINITY);
  alarm.ring();
  await expect(asleep).resolves.toBeUndefined();
});

test("a ring that came before is not lost", async () => {
  const alarm = createAlarm();
  alarm.ring();
  await expect(alarm.sleep(Number.POSITIVE_INFINITY)).resolves.toBeUndefined();
});

test("many rings end one sleep", async () => {
  const alarm = createAlarm();
  alarm.ring();
  alarm.ring();
  await alarm.sleep(60_000);
  let hasWoken = false;
  const second = alarm.sleep(60_000).then(() => {
    hasWoken = true;
  });
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  expect(hasWoken).toBe(false);
  alarm.ring();
  await second;
});

test("a delay that is over already ends at the next turn", async () => {
  await expect(createAlarm().sleep(-5)).resolves.toBeUndefined();
});
