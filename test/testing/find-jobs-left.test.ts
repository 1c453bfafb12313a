import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { z } from "zod";
import { drizzleExecutor } from "../../src/queries/executor.js";
import { findJobsLeft } from "../../src/queries/find-jobs-left.js";
import { createEventSpy } from "../support/events.js";
import { openRoom, type Room } from "../worker/room.js";

const payload = z.object({});
const queue = createQueue({
  jobs: defineJobs({
    first: defineJob({ payload }),
    second: defineJob({ payload, queue: "seconds" }),
    foreign: defineJob({ payload }),
  }),
});
const served = { names: ["first", "second"], queues: ["default", "seconds", "paused"] };
const ROWS = 300;

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterAll(() => room.close());

/** Rows of every kind, also such as are rare; each is chosen by the database's dice, `seed` decides how they fall. */
const randomRows = (seed: number) => `
  with dice as (
    select n, setseed(case n when 1 then ${seed} end), random() as a, random() as b, random() as c,
      random() as d, random() as e, random() as f, random() as g, random() as h
    from generate_series(1, ${ROWS}) as n order by n
  ), kind as (
    select *, case when a < 0.5 then 'queued' when a < 0.9 then 'running' when a < 0.95 then 'done' else 'cancelled' end as status
    from dice
  )
  insert into queue_jobs (name, queue, payload, priority, status, outcome, finished_at, max_attempts, attempts,
    expired_leases, lease_version, lease_until, locked_by, blockers, available_at, cancel_requested_at)
  select
    (array['first', 'second', 'foreign'])[1 + floor(b * 3)],
    (array['default', 'seconds', 'paused', 'unserved'])[1 + floor(c * 4)],
    '{}', floor(d * 10), status,
    case when status in ('done', 'cancelled') then status end,
    case when status in ('done', 'cancelled') then now() end,
    3, case when e < 0.2 then 3 else floor(e * 4) end, case when f < 0.1 then 2 else 0 end, 3,
    case when status = 'running' then now() + case when g < 0.6 then interval '-1 second' else interval '1 hour' end end,
    case when status = 'running' then 'another' end,
    case when h < 0.1 then 1 else 0 end,
    now() + case when g < 0.5 then interval '-1 minute' when g < 0.55 then '-1 day' when g < 0.9 then interval '1 hour' else '1 day' end,
    case when status = 'running' and h > 0.8 then now() end
  from kind`;

test.each([0.1, 0.4, 0.9])("what is left is what a worker would claim (seed %d)", async (seed) => {
  await room.clear();
  await room.rows(randomRows(seed));
  await room.rows("insert into queue_controls (queue, paused_at) values ('paused', now())");
  const find = findJobsLeft(queue.tables);
  const of = { ...served, workerId: "nobody", limit: ROWS };
  const { count, first } = await find(drizzleExecutor(room.db), of);
  const left = first.map(({ id }) => id).toSorted((a, b) => a - b);
  expect(left).toHaveLength(count);
  expect(count).toBeGreaterThan(20);

  const spy = createEventSpy();
  const worker = createWorker({
    queue,
    db: room.db,
    only: ["first", "second"],
    queues: served.queues,
    handlers: { first: () => undefined, second: () => undefined },
    pollIntervalMs: 10,
    instrumentation: spy.listener,
  });
  await worker.start();
  // A lost job without an attempt left is ended by the claim itself.
  const claimed = () => {
    const ended = spy.all("lease.expired").filter(({ retried }) => !retried);
    const ids = [...spy.all("job.claimed"), ...ended].map(({ jobId }) => jobId);
    return ids.toSorted((a, b) => a - b);
  };
  await vi.waitFor(() => expect(claimed().length).toBeGreaterThanOrEqual(count), 10_000);
  // A sweep comes about every second; whatever it could find would be too much.
  await new Promise((resolve) => {
    setTimeout(resolve, 1_500);
  });
  await worker.stop();
  expect(claimed()).toEqual(left);
  expect((await find(drizzleExecutor(room.db), of)).count).toBe(0);
});
