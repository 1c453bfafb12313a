import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { waitUntil } from "../support/wait-until.js";
import {
  type CommitHandlers,
  commitWorker,
  effects,
  openCommitRoom,
  queue,
} from "./commit-fixture.js";
import type { Room } from "./room.js";

let room: Room;
beforeAll(async () => {
  room = await openCommitRoom();
});
afterEach(async () => {
  await room.clear();
  await room.rows("truncate effects");
});
afterAll(() => room.close());

const workerWith = (handlers: CommitHandlers) => commitWorker(room, handlers);

describe("commit", () => {
  test("that nobody awaits decides about its job all the same", async () => {
    await using worker = workerWith({
      report: ({ job, commit }) => {
        void commit(async (tx) => {
          await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
          if (job.attempt === 1) throw new Error("unseen");
        });
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });
    await room.spy.next("job.done");
    const job = await room.job(id);
    expect(job).toMatchObject({ status: "done", attempts: 2 });
    expect(job?.errors).toMatchObject([{ message: "unseen" }]);
    expect(await room.rows("select attempt from effects")).toEqual([{ attempt: 2 }]);
  });

  test("that nobody awaits yet and that fails at once does not end the process", async () => {
    const unhandled: unknown[] = [];
    const onUnhandled = (error: unknown) => unhandled.push(error);
    process.on("unhandledRejection", onUnhandled);
    await using worker = workerWith({
      report: async ({ job, commit }) => {
        let hasThrown = false;
        void commit(() => {
          hasThrown = job.attempt === 1;
          if (hasThrown) throw new Error("unseen");
        });
        await waitUntil("the effect ran", () => hasThrown || job.attempt > 1);
        // Turns of the event loop in which Node looks for rejections that nobody has handled.
        for (let turn = 0; turn < 20; turn += 1) await room.rows("select 1");
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });
    await room.spy.next("job.done");
    expect((await room.job(id))?.errors).toMatchObject([{ message: "unseen" }]);
    process.off("unhandledRejection", onUnhandled);
    expect(unhandled).toEqual([]);
  });

  test("that is called twice without anybody awaiting it is reported, and does no harm", async () => {
    const unhandled: unknown[] = [];
    const onUnhandled = (error: unknown) => unhandled.push(error);
    process.on("unhandledRejection", onUnhandled);
    await using worker = workerWith({
      report: ({ job, commit }) => {
        for (const _ of [1, 2]) {
          void commit(async (tx) => {
            await tx.insert(effects).values({ jobId: job.id, attempt: job.attempt });
          });
        }
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "report", { reportId: "r1" });
    await room.spy.next("job.done");
    const { error } = await room.spy.next("handler.errored_after_commit");
    expect(error.code).toBe("COMMITTED_TWICE");
    expect(await room.rows("select attempt from effects")).toEqual([{ attempt: 1 }]);
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: 1 });
    process.off("unhandledRejection", onUnhandled);
    expect(unhandled).toEqual([]);
  });
});
