/** What a web process imports that only enqueues; .size-limit.js says how big it may be. */
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import * as z from "zod/mini";

const jobs = defineJobs({
  report: defineJob({ payload: z.object({ reportId: z.string() }) }),
});

export const { enqueue } = createQueue({ jobs });
