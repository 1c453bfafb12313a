import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createAdmin } from "drizzle-queue/admin";
import { z } from "zod";

const backoff = fixed({ delayMs: 0 });

/** The jobs of the operator's tests. */
export const queue = createQueue({
  jobs: defineJobs({
    report: defineJob({
      payload: z.object({ reportId: z.number() }),
      idempotencyKey: ({ reportId }) => `report ${reportId}`,
      maxAttempts: 2,
      backoff,
    }),
    /** Renewed every 300 ms or so: a request to cancel is noticed soon. */
    watched: defineJob({ payload: z.object({}), leaseMs: 900, backoff }),
    mail: defineJob({
      payload: z.object({}),
      result: z.object({ messageId: z.string() }),
      queue: "mails",
    }),
  }),
});

export const admin = createAdmin({ queue });

/** What a job has that is none of the library's doing, for rows that a test writes by itself. */
export const insertText = (
  status: "queued" | "running" | "done" | "failed" | "cancelled",
): string => `
  insert into queue_jobs (queue, name, payload, attempts, status, outcome, finished_at, lease_until)
  select 'default', 'watched', '{}', 1, '${status}',
    case when '${status}' in ('done', 'failed', 'cancelled') then '${status}' end,
    case when '${status}' in ('done', 'failed', 'cancelled') then now() end,
    case when '${status}' = 'running' then now() + interval '1 minute' end
  from generate_series(1, $1::int) returning id::int as id`;
