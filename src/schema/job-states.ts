/** Every state a job can be in; the last three are final. */
export const JOB_STATES = ["queued", "running", "done", "failed", "cancelled"] as const;

/** A job's state: waiting or due, held by a worker, or ended in one of three ways. */
export type JobState = (typeof JOB_STATES)[number];

/** The final states. */
export const JOB_OUTCOMES = ["done", "failed", "cancelled"] as const satisfies JobState[];

/** A final state; it is what the column `outcome` holds once a job has ended. */
export type JobOutcome = (typeof JOB_OUTCOMES)[number];
