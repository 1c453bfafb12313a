import type { Executor, Statement } from "./executor.js";

/**
 * Tells whether the server still has a session that goes on, whatever its client has heard of it.
 *
 * No timeout of the server ends a session that has had a part of a statement's
 * messages and waits for the rest: it counts as active. Only a COPY waits so for long.
 */
export async function backendIsThere(
  executor: Executor,
  pid: number,
  silentMs: number,
): Promise<boolean> {
  const statement: Statement = {
    name: "drizzle_queue_backend_is_there",
    text: `select exists (
        select from pg_catalog.pg_stat_activity
        where pid = $1::int and (
          state = 'active' and wait_event = 'ClientRead' and query not ilike 'copy%'
          and state_change < clock_timestamp() - interval '1 millisecond' * $2::float8
        ) is not true
      ) as there`,
    values: [pid, silentMs],
  };
  const [row] = await executor.run(statement);
  return row?.["there"] !== false;
}
