import { setTimeout as pauseFor } from "node:timers/promises";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { openRoom, type Room } from "../worker/room.js";

/**
 * Found by the crash test: with a backlog, the jobs of a killed worker waited for
 * 20 s and more. Jobs that were fetched ahead took each slot that came free, and
 * no claim found one free for a job that may not be fetched ahead.
 */

const jobs = defineJobs({ note: defineJob({ payload: z.object({ kind: z.string() }) }) });
const SLOTS = 4;
const OLD = 60;

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterAll(() => room.close());

const cases = [
  {
    what: "whose lease ran out",
    columns: "status, attempts, lease_version, lease_until",
    values: "'running', 1, 1, statement_timestamp() - interval '1 second'",
  },
  { what: "that are to be retried", columns: "attempts", values: "1" },
];

test.for(cases)("with a backlog, jobs $what start next", async ({ columns, values }) => {
  await room.clear();
  const queue = createQueue({ jobs, instrumentation: room.spy.listener });
  await room.db.transaction((tx) =>
    queue.enqueueMany(
      tx,
      Array.from({ length: 4_000 }, () => ({ name: "note", payload: { kind: "young" } }) as const),
    ),
  );
  const started: string[] = [];
  await using worker = createWorker({
    queue,
    db: room.db,
    concurrency: SLOTS,
    pollIntervalMs: 200,
    handlers: {
      note: async ({ payload: { kind } }) => {
        started.push(kind);
        await pauseFor(2);
      },
    },
  });
  await worker.start();
  // By now jobs are fetched ahead, and the floor has gone past the place of those below.
  await waitUntil("the backlog is under way", () => started.length > 200);
  await room.pool.query(
    `insert into queue_jobs (queue, name, payload, available_at, ${columns})
     select 'default', 'note', '{"kind": "old"}', statement_timestamp() - interval '1 minute', ${values}
     from generate_series(1, ${OLD})`,
  );
  await waitUntil("the old ones have started", () => count(started, "old") === OLD);
  const between = started.slice(started.indexOf("old"), started.lastIndexOf("old"));
  // Those that had started, or were claimed for the slots that were free, when the old ones were seen.
  expect(count(between, "young")).toBeLessThanOrEqual(2 * SLOTS);
  expect(count(started, "young"), "a backlog is left").toBeLessThan(4_000);
});

const count = (kinds: readonly string[], kind: string): number =>
  kinds.filter((other) => other === kind).length;
