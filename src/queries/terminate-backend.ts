import type { Executor } from "./executor.js";

/**
 * Ends the session of a worker's connection that was given up, so that a statement that the
 * network still holds is not carried out later, when nobody would hear of it.
 */
export async function terminateBackend(executor: Executor, pid: number): Promise<void> {
  await executor.run({
    name: "drizzle_queue_terminate_backend",
    // By its name, too: the number may be another session's by now.
    text: `select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity
      where pid = $1::int and usename = current_user and application_name like 'drizzle-queue %'`,
    values: [pid],
  });
}
