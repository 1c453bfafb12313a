import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({
    report: defineJob({
      payload: z.object({ reportId: z.string(), lines: z.array(z.object({ price: z.number() })) }),
      maxAttempts: 5,
    }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

test("a stored payload that no longer fits fails its job alone, with the paths of what is wrong", async () => {
  const ran: string[] = [];
  await using worker = createWorker({
    queue,
    db: room.db,
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
    handlers: {
      report: ({ payload }) => {
        ran.push(payload.reportId);
      },
    },
  });
  const good = { reportId: "good", lines: [{ price: 1 }] };
  // As an older version of the app, or a hand, may have written them.
  const stored = [
    good,
    null,
    "text",
    { reportId: 7, lines: [] },
    { reportId: "SECRET-VALUE", lines: [{ price: 1 }, { price: "SECRET-VALUE" }] },
    {},
    good,
  ];
  await room.rows(
    `insert into queue_jobs (queue, name, payload, max_attempts)
     select 'default', 'report', value, 5 from jsonb_array_elements($1::jsonb)`,
    [JSON.stringify(stored)],
  );
  await worker.start();

  for (const _ of stored.slice(2)) await room.spy.next("job.failed");
  await room.spy.next("job.done");
  await room.spy.next("job.done");

  expect(ran).toEqual(["good", "good"]);
  const rows = await room.rows<{ status: string; attempts: number; error: string | null }>(
    `select status, attempts, coalesce(error_history -> 0 ->> 'code', '') || ' ' || coalesce(last_error, '') as error
     from queue_jobs order by id`,
  );
  expect(rows.map(({ status }) => status)).toEqual([
    "done",
    "failed",
    "failed",
    "failed",
    "failed",
    "failed",
    "done",
  ]);
  // No attempt would help, so none is wasted.
  expect(rows.map(({ attempts }) => attempts)).toEqual([1, 1, 1, 1, 1, 1, 1]);
  expect(rows[4]?.error).toContain("STORED_PAYLOAD_INVALID");
  expect(rows[4]?.error).toContain("lines.1.price");
  expect(JSON.stringify([rows, room.spy.all()])).not.toContain("SECRET-VALUE");
});

test("defaults of a newer schema are filled in when an older payload is read", async () => {
  const newer = createQueue({
    jobs: defineJobs({
      report: defineJob({
        payload: z.object({ reportId: z.string(), format: z.enum(["pdf", "csv"]).default("pdf") }),
      }),
    }),
  });
  const seen: string[] = [];
  await using worker = createWorker({
    queue: newer,
    db: room.db,
    instrumentation: room.spy.listener,
    handlers: {
      report: ({ payload }) => {
        seen.push(payload.format);
      },
    },
  });
  await queue.enqueueNow(room.db, "report", { reportId: "r1", lines: [] });
  await worker.start();
  await room.spy.next("job.done");
  expect(seen).toEqual(["pdf"]);
});
