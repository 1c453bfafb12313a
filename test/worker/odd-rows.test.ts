import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({
    // A lease with a fraction: the server takes whole milliseconds.
    work: defineJob({ payload: z.object({ n: z.number() }), leaseMs: 20_000.5 }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
  await room.rows(`
    create function refuse() returns trigger language plpgsql as $$
      begin raise exception 'this one never'; end $$;
    create trigger refuse before update on queue_jobs for each row
      when (new.status = 'done' and new.payload ->> 'n' = '13') execute function refuse()`);
});
afterEach(() => room.clear());
afterAll(() => room.close());

const createTestWorker = () =>
  createWorker({
    queue,
    db: room.db,
    handlers: { work: () => {} },
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
  });

const insertAt = (availableAt: string) =>
  room.rows<{ id: string }>(
    `insert into queue_jobs (queue, name, payload, available_at) values ('default', 'work', '{"n": 1}', $1) returning id`,
    [availableAt],
  );

test.each(["infinity", "294276-01-01", "-infinity", "0001-01-01"])(
  "a job that is available at %s does not hold up others",
  async (availableAt) => {
    await insertAt(availableAt);
    await using worker = createTestWorker();
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "work", { n: 2 });
    await room.spy.next("job.done", ({ jobId }) => jobId === id);
    expect(room.spy.all("statement.errored")).toEqual([]);
  },
);

test("a job available since -infinity is run", async () => {
  const [row] = await insertAt("-infinity");
  await using worker = createTestWorker();
  await worker.start();
  expect((await room.spy.next("job.done")).jobId).toBe(Number(row?.id));
});

test("a job whose completion a trigger of the app refuses is failed, and its neighbours are done", async () => {
  const jobs = await room.db.transaction((tx) =>
    queue.enqueueMany(
      tx,
      [11, 12, 13, 14].map((n) => ({ name: "work" as const, payload: { n } })),
    ),
  );
  await using worker = createTestWorker();
  await worker.start();
  for (let done = 0; done < 3; done += 1) await room.spy.next("job.done");
  expect(await room.spy.next("job.failed")).toMatchObject({
    jobId: jobs[2]?.id,
    error: { code: "OUTCOME_REFUSED" },
  });
});
