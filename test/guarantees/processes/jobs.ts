import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { z } from "zod";

/** The jobs that the tests and their worker processes share. */
export const queue = createQueue({
  jobs: defineJobs({
    /** Does something that a test wants to be done exactly once. */
    work: defineJob({
      payload: z.object({ n: z.number() }),
      idempotencyKey: ({ n }) => `work-${n}`,
      leaseMs: 2_000,
      maxAttempts: 3,
      backoff: fixed({ delayMs: 0 }),
    }),
    /** Ends at once, and comes first. */
    quick: defineJob({ payload: z.object({}), priority: 0 }),
    /** Kills the process that runs it. */
    poison: defineJob({
      payload: z.object({}),
      leaseMs: 500,
      maxAttempts: 3,
      backoff: fixed({ delayMs: 0 }),
    }),
    /** Stands beside a poison job and would like to be done. */
    innocent: defineJob({
      payload: z.object({}),
      leaseMs: 500,
      maxAttempts: 3,
      backoff: fixed({ delayMs: 0 }),
    }),
  }),
});
