import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Connection } from "../../../src/worker/connection.js";
import { createWakeUp } from "../../../src/worker/wake-up.js";

beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => vi.useRealTimers());

/** One connection that is always there. */
const connection: Connection = {
  run: async () => [],
  listen: async () => undefined,
  isConnected: () => true,
  isListening: () => true,
  close: async () => undefined,
};

test("looks for jobs whenever it begins or ends to ask for notifications, and not in between", async () => {
  const wanted = { wants: true };
  const written: boolean[] = [];
  let looks = 0;
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
    onWake: () => expect.unreachable(),
    onLook: () => (looks += 1),
    onError: () => expect.unreachable(),
  });
  wakeUp.start();
  await vi.advanceTimersByTimeAsync(3_100);
  expect([written, looks]).toEqual([[true], 1]);
  wanted.wants = false;
  await vi.advanceTimersByTimeAsync(3_000);
  expect([written, looks]).toEqual([[true, false], 2]);
  expect(wakeUp.pollsClosely()).toBe(true);
  wanted.wants = true;
  await vi.advanceTimersByTimeAsync(3_000);
  expect([written, looks]).toEqual([[true, false, true], 3]);
  await wakeUp.stop(100);
});

test("leaves a paused queue out of its row, puts it back, and polls closely then: who did not see it notifies nobody", async () => {
  let open = ["mails", "reports"];
  let paused: string[] = [];
  const rows: (readonly string[])[] = [];
  let notify = (_payload: string): void => {};
  const wakeUp = createWakeUp({
    connection: {
      ...connection,
      listen: async (_, onNotification) => void (notify = onNotification),
    },
    channel: "channel",
    openQueues: () => open,
    onPaused: (told) => {
      open = ["mails", "reports"].filter((queue) => !told.includes(queue));
    },
    registration: {
      workerId: "w",
      served: ["mails", "reports"],
      names: [],
      pollIntervalMs: 60_000,
    },
    async register(_, { queues }) {
      rows.push(queues);
      return { isListening: true, paused };
    },
    unregister: async () => undefined,
    wantsNotifications: () => true,
    arrivalsAreFrequent: () => false,
    onWake: () => undefined,
    onLook: () => undefined,
    onError: () => expect.unreachable(),
  });
  wakeUp.start();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(wakeUp.pollsClosely()).toBe(false);
  paused = ["mails"];
  notify("controls");
  await vi.advanceTimersByTimeAsync(3_000);
  expect(rows).toEqual([["mails", "reports"], ["mails", "reports"], ["reports"]]);
  expect(wakeUp.pollsClosely()).toBe(false);
  paused = [];
  notify("controls");
  await vi.advanceTimersByTimeAsync(2_000);
  expect(rows.at(-1)).toEqual(["mails", "reports"]);
  expect(wakeUp.pollsClosely()).toBe(true);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(wakeUp.pollsClosely()).toBe(false);
  await wakeUp.stop(100);
});
