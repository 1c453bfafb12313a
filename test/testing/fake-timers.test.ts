import { mock } from "node:test";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { drainJobs } from "drizzle-queue/testing";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { z } from "zod";
import { openRoom, type Room } from "../worker/room.js";

const queue = createQueue({ jobs: defineJobs({ work: defineJob({ payload: z.object({}) }) }) });
const handlers = { work: () => undefined };

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  mock.timers.reset();
});
afterAll(() => room.close());

const FAKES: Readonly<Record<string, () => void>> = {
  "vitest's": () => void vi.useFakeTimers(),
  "vitest's, of one kind only": () => void vi.useFakeTimers({ toFake: ["setImmediate"] }),
  "node:test's": () => mock.timers.enable({ apis: ["setTimeout"] }),
  "mock functions": () =>
    vi.stubGlobal(
      "setTimeout",
      Object.assign(() => 0, { _isMockFunction: true }),
    ),
};

test.each(Object.entries(FAKES))("timers that are %s are refused at once", async (_, fake) => {
  fake();
  const draining = drainJobs({ queue, db: room.db, handlers });
  await expect(draining).rejects.toMatchObject({ code: "INVALID_OPTION" });
  await expect(draining).rejects.toThrow('vi.useFakeTimers({ toFake: ["Date"] })');
});

test("a date that is fake does no harm", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: new Date("2040-01-01") });
  const { id } = await queue.enqueueNow(room.db, "work", {});
  expect((await drainJobs({ queue, db: room.db, handlers })).done).toMatchObject([{ id }]);
});
