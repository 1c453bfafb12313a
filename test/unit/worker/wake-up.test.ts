import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Connection } from "../../../src/worker/connection.js";
import { createWakeUp } from "../../../src/worker/wake-up.js";

beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => vi.useRealTimers());

test("looks for jobs whenever it begins or ends to ask for notifications, and not in between", async () => {
  const wanted = { wants: true };
  const written: boolean[] = [];
  let wakes = 0;
  const connection: Connection = {
    run: async () => [],
    listen: async () => undefined,
    isConnected: () => true,
    isListening: () => true,
    close: async () => undefined,
  };
  const wakeUp = createWakeUp({
    connection,
    channel: "channel",
    openQueues: () => ["default"],
    onPaused: () => undefined,
    registration: { workerId: "w", served: ["default"], names: ["note"], pollIntervalMs: 60_000 },
    async register(_, { isWaiting }) {
      written.push(isWaiting);
      return { isListening: true, paused: [] };
    },
    unregister: async () => undefined,
    wantsNotifications: () => wanted.wants,
    arrivalsAreFrequent: () => !wanted.wants,
    onWake: () => (wakes += 1),
    onError: () => expect.unreachable(),
  });
  wakeUp.start();
  await vi.advanceTimersByTimeAsync(3_100);
  expect([written, wakes]).toEqual([[true], 1]);
  wanted.wants = false;
  await vi.advanceTimersByTimeAsync(3_000);
  expect([written, wakes]).toEqual([[true, false], 2]);
  expect(wakeUp.pollsClosely()).toBe(true);
  wanted.wants = true;
  await vi.advanceTimersByTimeAsync(3_000);
  expect([written, wakes]).toEqual([[true, false, true], 3]);
  await wakeUp.stop(100);
});
