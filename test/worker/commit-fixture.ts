import { bigint, integer, pgTable } from "drizzle-orm/pg-core";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createWorker, type HandlerFor } from "drizzle-queue/worker";
import { z } from "zod";
import { openRoom, type Room } from "./room.js";

/** What a commit of these tests writes. */
export const effects = pgTable("effects", {
  jobId: bigint("job_id", { mode: "number" }),
  attempt: integer("attempt"),
});
export const queue = createQueue({
  jobs: defineJobs({
    report: defineJob({
      payload: z.object({ reportId: z.string() }),
      idempotencyKey: ({ reportId }) => reportId,
      leaseMs: 600,
      maxAttempts: 3,
      backoff: fixed({ delayMs: 20 }),
    }),
    measure: defineJob({
      payload: z.object({}),
      result: z.object({ pages: z.number().int() }),
      maxAttempts: 2,
      backoff: fixed({ delayMs: 0 }),
    }),
    email: defineJob({ payload: z.object({ reportId: z.string() }), queue: "emails" }),
  }),
});
type Report = HandlerFor<typeof queue, "report", Room["db"]>;
type Measure = HandlerFor<typeof queue, "measure", Room["db"]>;

/** Those handlers that a test is about; the others do nothing. */
export interface CommitHandlers {
  readonly report?: Report;
  readonly measure?: Measure;
}

/** A room with a table for effects. */
export async function openCommitRoom(): Promise<Room> {
  const room = await openRoom();
  await room.rows("create table effects (job_id bigint, attempt int)");
  return room;
}

/** A worker of the room, on its database unless another is given. */
export const commitWorker = (room: Room, handlers: CommitHandlers, db = room.db) =>
  createWorker({
    queue,
    db,
    only: ["report", "measure"],
    handlers: { report: () => {}, measure: () => ({ pages: 0 }), ...handlers },
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
  });
