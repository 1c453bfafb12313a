import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { drainJobs } from "drizzle-queue/testing";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { openRoom, type Room } from "../worker/room.js";

const queue = createQueue({
  jobs: defineJobs({ work: defineJob({ payload: z.object({}) }) }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const LOSSES = {
  "is taken by another worker":
    "update queue_jobs set lease_version = lease_version + 1, locked_by = 'another', lease_until = now() + interval '1 minute'",
  "has lost its row": "delete from queue_jobs",
};
const NOTHING = { done: [], failed: [], retrying: [], snoozed: [], cancelled: [], errors: [] };

describe.each(Object.entries(LOSSES))(
  "a job that %s while it runs is reported as lost",
  (_, statement) => {
    test.each([
      ["returned", false],
      ["committed", true],
    ])("when its handler has %s", async (_way, commits) => {
      const { id } = await queue.enqueueNow(room.db, "work", {});
      const report = await drainJobs({
        queue,
        db: room.db,
        handlers: {
          async work({ commit }) {
            await room.rows(statement);
            if (commits) await commit(() => undefined);
          },
        },
      });
      const lost = [{ id, name: "work", queue: "default", attempt: 1 }];
      expect(report).toEqual({ ...NOTHING, lost });
    });
  },
);

test("one that came back is reported by its last end only", async () => {
  const { id } = await queue.enqueueNow(room.db, "work", {});
  const report = await drainJobs({
    queue,
    db: room.db,
    handlers: {
      async work({ job }) {
        if (job.attempt > 1) return;
        await room.rows(
          "update queue_jobs set lease_version = lease_version + 1, locked_by = 'dead', lease_until = now()",
        );
      },
    },
  });
  expect(report).toMatchObject({ ...NOTHING, done: [{ id, attempt: 2 }], lost: [] });
});
