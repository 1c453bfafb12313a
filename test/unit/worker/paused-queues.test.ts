import { expect, test } from "vitest";
import type { QueueEvent } from "../../../src/instrumentation/instrumentation.js";
import { createPausedQueues } from "../../../src/worker/paused-queues.js";

function observed() {
  const told: string[] = [];
  const pauses = createPausedQueues({
    workerId: "w",
    queues: ["mails", "reports"],
    onPaused: (queues) => void told.push(`give back ${[...queues].join()}`),
    onResumed: () => void told.push("look"),
    emit: (event: QueueEvent) =>
      void told.push(`${event.type} ${"queue" in event ? event.queue : ""}`),
  });
  return { pauses, told };
}

test("a pause is told once, and so is its end", () => {
  const { pauses, told } = observed();
  pauses.learn([], 0);
  pauses.learn(["mails"], 1);
  pauses.learn(["mails"], 2);
  expect(told).toEqual(["queue.paused mails", "give back mails"]);
  expect([pauses.isPaused("mails"), pauses.open()]).toEqual([true, ["reports"]]);
  pauses.learn(["reports"], 3);
  expect(told.slice(2)).toEqual([
    "queue.paused reports",
    "queue.resumed mails",
    "give back reports",
    "look",
  ]);
  expect(pauses.open()).toEqual(["mails"]);
});

test("an answer that was asked for before another one changes nothing after it", () => {
  const { pauses, told } = observed();
  pauses.learn(["mails"], 5);
  pauses.learn([], 4);
  expect(pauses.isPaused("mails")).toBe(true);
  expect(told).toHaveLength(2);
  pauses.learn([], 5);
  expect(pauses.isPaused("mails")).toBe(false);
});
