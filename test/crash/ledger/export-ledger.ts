import { join } from "node:path";
import type pg from "pg";
import type { AuditEntry, EffectEntry, FinalState, JobRow, OrderRow } from "./entries.js";
import { openJournal } from "./journal.js";

/** How many rows travel at once. */
const PAGE = 5_000;

/** Reads the audit trail. */
export const auditQuery = `
  select seq, extract(epoch from at)::float8 * 1000 as "atMs", extract(epoch from statement_at)::float8 * 1000 as "statementMs",
    xid::text as xid, who, app, op, job_id as "jobId", no, name, old, new
  from ledger.audit order by seq`;

/** Reads the effects in the database, or those outside. */
export const effectsQuery = (table: string): string => `
  select no, job_id as "jobId", attempt, version, who, xid::text as xid from ledger.${table} order by job_id`;

const jobs = `
  select id as "jobId", (payload ->> 'no')::bigint as no, name, status, last_error as "lastError"
  from public.queue_jobs order by id`;

const orders = `select no, job_id as "jobId" from ledger.orders order by no`;

/** Writes what the database knows to files beside the other ledgers: the checker reads files only. */
export async function exportLedger(client: pg.Client, folder: string): Promise<void> {
  await exportRows<AuditEntry>(client, join(folder, "audit.jsonl"), auditQuery);
  await exportRows<EffectEntry>(client, join(folder, "effects.jsonl"), effectsQuery("effects"));
  await exportRows<EffectEntry>(client, join(folder, "outside.jsonl"), effectsQuery("outside"));
  await exportRows<JobRow>(client, join(folder, "jobs.jsonl"), jobs);
  await exportRows<OrderRow>(client, join(folder, "orders.jsonl"), orders);
  const journal = openJournal<FinalState>(join(folder, "final.jsonl"));
  journal.write(await finalState(client));
  journal.close();
}

async function exportRows<T extends object>(
  client: pg.Client,
  path: string,
  text: string,
): Promise<void> {
  const journal = openJournal<T>(path);
  await client.query("begin");
  await client.query(`declare page no scroll cursor for ${text}`);
  for (;;) {
    const { rows } = await client.query<T & pg.QueryResultRow>(`fetch ${PAGE} from page`);
    for (const row of rows) journal.write(withNumbers(row));
    if (rows.length === 0) break;
  }
  await client.query("commit");
  journal.close();
}

/** int8 comes as text. */
function withNumbers<T extends object>(row: T): T {
  const numbers = new Set(["seq", "jobId", "no"]);
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, numbers.has(name) ? Number(value) : value]),
  ) as T;
}

async function finalState(client: pg.Client): Promise<FinalState> {
  const one = async <T extends object>(text: string): Promise<T[]> =>
    (await client.query<T & pg.QueryResultRow>(text)).rows;
  const sums = await one<{ side: string; sum: string }>(
    "select side, sum(balance) as sum from ledger.accounts group by side",
  );
  const sumOf = (side: string) => Number(sums.find((row) => row.side === side)?.sum);
  const keys = await one<{ name: string; key: string; job: string }>(
    "select name, idempotency_key as key, job_id as job from public.queue_processed_keys",
  );
  const sessions = await one<{ session: string }>(
    `select concat_ws(' | ', application_name, state, left(query, 120)) as session from pg_stat_activity
     where datname = current_database() and backend_type = 'client backend' and application_name not like 'crash%'`,
  );
  const [server] = await one<{ server_version: string }>("show server_version");
  const [workers] = await one<{ count: string }>(
    "select count(*) from public.queue_workers where seen_at > statement_timestamp()",
  );
  return {
    accounts: { a: sumOf("a"), b: sumOf("b") },
    keys: keys.map(({ name, key, job }) => ({ name, key, jobId: Number(job) })),
    sessions: sessions.map(({ session }) => session),
    workers: Number(workers?.count),
    server: server?.server_version ?? "unknown",
  };
}
