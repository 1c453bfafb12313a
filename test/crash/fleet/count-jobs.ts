import type { RunOptions } from "../run-crash.js";
import type { Nemesis } from "./nemesis.js";
import { connectDirectly } from "./server-faults.js";

/** How many jobs there are. */
export interface JobCounts {
  /** Numbers that enqueues have drawn, those of rolled-back ones included. */
  readonly drawn: number;
  /** Jobs that are not final. */
  readonly open: number;
}

/** How far a run is. */
export interface Progress extends JobCounts {
  readonly phase: "chaos" | "quiet";
  readonly elapsedMs: number;
  readonly struck: number;
  readonly planned: number;
}

const counts = `
  select coalesce(pg_sequence_last_value(pg_get_serial_sequence('public.queue_jobs', 'id')::regclass), 0) as drawn,
    (select count(*) from public.queue_jobs where finished_at is null) as open`;

/** Asks the server, past the proxy. */
export async function countJobs(url: string): Promise<JobCounts> {
  const client = await connectDirectly(url, "crash watcher");
  try {
    const { rows } = await client.query<{ drawn: string; open: string }>(counts);
    return { drawn: Number(rows[0]?.drawn), open: Number(rows[0]?.open) };
  } finally {
    await client.end();
  }
}

/** Describes how far a run is. */
export function progress(
  phase: Progress["phase"],
  { plan }: RunOptions,
  nemesis: Nemesis,
  startedOnClock: number,
): (jobs: JobCounts) => Progress {
  return (jobs) => ({
    phase,
    ...jobs,
    elapsedMs: performance.now() - startedOnClock,
    struck: nemesis.log().length,
    planned: plan.faults.length,
  });
}
