import { setMaxListeners } from "node:events";
import { setTimeout as pauseFor } from "node:timers/promises";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import type pg from "pg";

const CLAIM = `
  update public.queue_jobs set status = 'running', locked_by = $1, attempts = least(attempts + 1, max_attempts),
    lease_version = lease_version + 1, lease_until = now() + $2 * interval '1 millisecond'
  where id = (
    select id from public.queue_jobs
    where available_at <= now() and (status = 'queued' or (status = 'running' and lease_until < now()))
    order by id limit 1 for update skip locked)
  returning id::int, name, payload, attempts, max_attempts, lease_version`;

const END = `
  update public.queue_jobs set status = $2, outcome = nullif($2, 'queued'), lease_until = null,
    finished_at = case when $2 <> 'queued' then now() end where id = $1`;

const COUNT = "select count(*) from public.queue_jobs where status = 'queued'";

/** How long it holds what it has claimed: longer than most jobs take, as one guesses. */
const LEASE_MS = 1_000;

interface NaiveJob {
  readonly id: number;
  readonly name: string;
  readonly payload: unknown;
  readonly attempts: number;
  readonly max_attempts: number;
  readonly lease_version: number;
}

/** What the naive queue is run with. */
export interface NaiveOptions {
  readonly who: string;
  readonly slots: number;
  readonly handlers: Readonly<Record<string, (context: unknown) => Promise<unknown>>>;
  /** Told the version of each attempt that starts: the ledger knows who holds what, the queue does not ask. */
  readonly versions: Map<number, number>;
}

/**
 * A queue as one writes it in an afternoon: SKIP LOCKED and a lease, no renewal, no
 * fence, the completion in a transaction of its own, a count of what waits ten times a
 * second, and a listener per job. The harness has to see it fail.
 */
export async function runNaiveQueue(
  { pool, db }: { readonly pool: pg.Pool; readonly db: NodePgDatabase },
  { who, slots, handlers, versions }: NaiveOptions,
): Promise<void> {
  // Else its processes would end at the first cut connection, before they could do harm.
  pool.on("connect", (client) => client.on("error", () => undefined));

  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal);

  // A gauge for somebody's dashboard.
  setInterval(() => void pool.query(COUNT).catch(() => undefined), 100);

  const run = async (job: NaiveJob): Promise<void> => {
    const attempt = new AbortController();
    // Nobody takes this back: the process keeps something of each job that it ever ran.
    stopping.signal.addEventListener("abort", () => attempt.abort());
    try {
      await handlers[job.name]?.({
        payload: job.payload,
        job: { id: job.id, attempt: job.attempts },
        signal: attempt.signal,
        commit: (effect: (tx: unknown) => Promise<void>) => db.transaction(effect),
      });
      await pool.query(END, [job.id, "done"]);
    } catch {
      await pool.query(END, [job.id, job.attempts >= job.max_attempts ? "failed" : "queued"]);
    }
  };

  const slot = async (): Promise<void> => {
    const [job] = (await pool.query<NaiveJob & pg.QueryResultRow>(CLAIM, [who, LEASE_MS])).rows;
    if (job === undefined) return pauseFor(100);
    versions.set(job.id, job.lease_version);
    await run(job);
  };

  const loop = async (): Promise<never> => {
    // Whatever goes wrong: again, a little later.
    for (;;) await slot().catch(() => pauseFor(200));
  };
  await Promise.all(Array.from({ length: slots }, loop));
}
