import { createQueue, defineJob, defineJobs, exponential } from "drizzle-queue";
import { z } from "zod";

/** The reports that one can ask for. */
export const REPORT_KINDS = ["delay-by-hour", "routes", "punctuality", "week"] as const;

/** What a report is about: the body of a request and the payload of its job. */
export const reportRequest = z.object({
  airport: z.string().regex(/^[A-Z0-9]{3}$/),
  kind: z.enum(REPORT_KINDS),
});

/** What a report is about. */
export type ReportRequest = z.infer<typeof reportRequest>;

export const jobs = defineJobs({
  report: defineJob({
    payload: reportRequest,
    // Two people who ask for the same report get one job.
    idempotencyKey: ({ airport, kind }) => [airport, kind],
    // Short, so that one need not wait long to see a killed worker's jobs come back.
    leaseMs: 3_000,
    timeoutMs: 30_000,
    maxAttempts: 5,
    backoff: exponential({ baseMs: 500, maxMs: 10_000 }),
  }),
});

export const queue = createQueue({ jobs });
export const { enqueue } = queue;
