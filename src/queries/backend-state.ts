import type { Executor, Statement } from "./executor.js";

/** What a session of the server does, whatever its client has heard of it. */
export interface BackendState {
  /**
   * `receiving`: it has had a part of a statement's messages and waits for the rest. It counts
   * as active, so that no timeout of the server ends it. Only a COPY waits so for long, which
   * is `working`, as is a session in a transaction, and one of which the server does not tell.
   */
  readonly doing: "working" | "receiving" | "idle" | "gone";
  /** For how long, in milliseconds. */
  readonly forMs: number;
}

/** Asks over another connection what becomes of the session with the process number `pid`. */
export async function backendState(executor: Executor, pid: number): Promise<BackendState> {
  const statement: Statement = {
    name: "drizzle_queue_backend_state",
    text: `select case
        when state = 'active' and wait_event = 'ClientRead' and query not ilike 'copy%' then 'receiving'
        when state = 'idle' then 'idle'
        else 'working'
      end as doing,
      date_part('epoch', clock_timestamp() - state_change) * 1000 as for_ms
      from pg_catalog.pg_stat_activity where pid = $1::int`,
    values: [pid],
  };
  const [row] = await executor.run(statement);
  if (row === undefined) return { doing: "gone", forMs: 0 };
  return { doing: row["doing"] as BackendState["doing"], forMs: Number(row["for_ms"]) };
}
