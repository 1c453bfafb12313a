import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { createGate, openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({ work: defineJob({ payload: z.object({}), leaseMs: 10_000 }) }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
  // A sequence forgets nothing when the statement that drew from it is rolled back.
  await room.rows(`
    create sequence refusals;
    create table refuse (state text, times int);
    create function refuse() returns trigger language plpgsql as $$
      declare state text; times int;
      begin
        select refuse.state, refuse.times into state, times from public.refuse;
        if state is not null and nextval('public.refusals') <= times then
          raise exception 'refused for a while' using errcode = state;
        end if;
        return new;
      end $$;
    create trigger refuse before update on queue_jobs for each row
      when (new.status = 'done') execute function refuse()`);
});
afterEach(async () => {
  await room.rows("truncate refuse");
  await room.rows("alter sequence refusals restart");
  await room.clear();
});
afterAll(() => room.close());

const workerWith = (work: () => void | Promise<void>) =>
  createWorker({
    queue,
    db: room.db,
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
    handlers: { work },
  });

const enqueue = (count: number) =>
  room.db.transaction((tx) =>
    queue.enqueueMany(
      tx,
      Array.from({ length: count }, () => ({ name: "work" as const, payload: {} })),
    ),
  );

describe("a completion", () => {
  test.each([
    ["40P01", 1],
    ["40001", 1],
    ["57014", 1],
    ["53200", 1],
    ["40P01", 5],
  ])(
    "that the server refuses with %s for %i times is sent again, and the handler is not",
    async (state, times) => {
      let runs = 0;
      await room.rows("insert into refuse values ($1, $2)", [state, times]);
      await using worker = workerWith(() => {
        runs += 1;
      });
      await worker.start();
      await enqueue(5);
      for (let n = 0; n < 5; n += 1) await room.spy.next("job.done");
      expect(runs).toBe(5);
      expect(room.spy.all("statement.errored").length).toBeGreaterThanOrEqual(1);
      expect(room.spy.all("statement.errored")[0]?.error.code).toBe(state);
      expect(
        await room.rows("select distinct status, attempts, lease_version from queue_jobs"),
      ).toEqual([{ status: "done", attempts: 1, lease_version: 1 }]);
    },
  );

  test("survives the end of the connection that carries it", async () => {
    const gate = createGate();
    let runs = 0;
    await using worker = workerWith(async () => {
      runs += 1;
      await gate.opened;
    });
    await worker.start();
    await enqueue(5);
    await waitUntil("all run", () => runs === 5);
    await room.rows(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'drizzle-queue main'",
    );
    gate.open();
    for (let n = 0; n < 5; n += 1) await room.spy.next("job.done");
    expect(runs).toBe(5);
    expect(
      await room.rows("select distinct status, attempts, lease_version from queue_jobs"),
    ).toEqual([{ status: "done", attempts: 1, lease_version: 1 }]);
  });

  test("of a job that was deleted meanwhile is reported once as lost, and hurts nobody else", async () => {
    const gate = createGate();
    await using worker = workerWith(() => gate.opened);
    await worker.start();
    const jobs = await enqueue(5);
    for (const _ of jobs) await room.spy.next("job.started");
    await room.rows("delete from queue_jobs where id = $1", [jobs[2]?.id]);
    gate.open();
    for (let n = 0; n < 4; n += 1) await room.spy.next("job.done");
    expect(await room.spy.next("lease.lost")).toMatchObject({
      jobId: jobs[2]?.id,
      noticedBy: "settle",
    });
    expect(room.spy.all("lease.lost")).toHaveLength(1);
    expect(
      await room.rows("select distinct status, count(*)::int from queue_jobs group by 1"),
    ).toEqual([{ status: "done", count: 4 }]);
    await enqueue(1);
    await room.spy.next("job.done");
  });
});
