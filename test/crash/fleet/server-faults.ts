import pg from "pg";
import { cancelJobs } from "../../../src/queries/cancel-jobs.js";
import type { JobChange } from "../../../src/queries/change-jobs.js";
import type { Executor, Row } from "../../../src/queries/executor.js";
import { requeueJobs } from "../../../src/queries/requeue-jobs.js";
import { tableNames } from "../../../src/schema/table-names.js";

/** Opens a session past the proxy; it and its errors are the harness's own. */
export async function connectDirectly(url: string, name = "crash nemesis"): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: name });
  client.on("error", () => undefined);
  await client.connect();
  return client;
}

async function once(url: string, act: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = await connectDirectly(url);
  try {
    await act(client);
  } finally {
    await client.end();
  }
}

/** Ends this many sessions of the fleet. */
export async function terminateSessions(url: string, sessions: number): Promise<boolean> {
  await once(url, (client) =>
    client.query(
      `select pg_terminate_backend(pid) from (
        select pid from pg_stat_activity
        where backend_type = 'client backend' and application_name not like 'crash%'
        order by random() limit $1) as chosen`,
      [sessions],
    ),
  );
  return true;
}

/** Jobs by which other promises are tried: there are few of them, and each is to come to its own end. */
const SPARED = ["poison", "contested", "contested-settle", "long"];

const tables = tableNames();
const cancel = cancelJobs(tables);
const requeue = requeueJobs(tables);

/** Cancels one job, as an operator does. */
export const askForEnd = (
  url: string,
  { status, of }: { readonly status: string; readonly of: "any" | "unwanted" },
): Promise<boolean> =>
  changeOne(url, ["cancelled", "requested"], cancel, {
    text: `select id from public.queue_jobs
      where status = $1 and cancel_requested_at is null and name <> all($2)
      -- Of those that are there for it the one that was renewed last: its worker is likely to be alive, and to hear.
      order by name = $3 desc, case when $3 = 'unwanted' then lease_until end desc nulls last, random() limit 1`,
    values: [status, SPARED, of],
  });

/** Queues one job again that has failed or was cancelled, as an operator does. */
export const queueAgain = (url: string): Promise<boolean> =>
  changeOne(url, ["requeued"], requeue, {
    text: `select id from public.queue_jobs
      where status in ('failed', 'cancelled') and name <> all($1)
      order by random() limit 1`,
    values: [SPARED],
  });

/** @returns whether the job that was chosen was changed: meanwhile it may have gone its way. */
async function changeOne(
  url: string,
  wanted: readonly string[],
  change: JobChange<string>,
  choice: { readonly text: string; readonly values: unknown[] },
): Promise<boolean> {
  let isChanged = false;
  await once(url, async (client) => {
    const { rows } = await client.query<{ id: string }>(choice.text, choice.values);
    const executor: Executor = {
      run: async ({ text, values }) =>
        (await client.query<Row & pg.QueryResultRow>(text, [...values])).rows,
    };
    const ids = rows.map(({ id }) => Number(id));
    const { answers } = await change(executor, { ids, isInTransaction: false, transaction: null });
    isChanged = [...answers.values()].some((answer) => wanted.includes(answer));
  });
  return isChanged;
}

/** New transactions may not write, as on a standby that was promoted the wrong way round. */
export async function turnReadOnly(url: string): Promise<() => Promise<void>> {
  const set = (text: string) => () =>
    once(url, async (client) => {
      await client.query(text);
      await client.query("select pg_reload_conf()");
    });
  await set("alter system set default_transaction_read_only = on")();
  return set("alter system reset default_transaction_read_only");
}

/** What an app's role may have been given, and what no session of ours may be hurt by. */
const HOSTILE = [
  "statement_timeout = '250ms'",
  "lock_timeout = '50ms'",
  "idle_in_transaction_session_timeout = '200ms'",
  "idle_session_timeout = '1s'",
  "default_transaction_isolation = 'serializable'",
  "timezone = 'Asia/Kathmandu'",
  "search_path = ''",
  "datestyle = 'SQL, DMY'",
];

/** New sessions get hostile settings; those that are open are ended, so that all are new. */
export async function roleSettings(url: string): Promise<() => Promise<void>> {
  await once(url, async (client) => {
    for (const setting of HOSTILE) await client.query(`alter role postgres set ${setting}`);
  });
  await terminateSessions(url, 1_000);
  return async () => {
    await once(url, (client) => client.query("alter role postgres reset all"));
    await terminateSessions(url, 1_000);
  };
}

/** Keeps a snapshot, so that nothing that dies meanwhile can be cleaned away. */
export async function holdSnapshot(url: string): Promise<() => Promise<void>> {
  const client = await connectDirectly(url);
  await client.query("begin isolation level repeatable read");
  await client.query("select count(*) from public.queue_jobs");
  return async () => {
    await client.end().catch(() => undefined);
  };
}

/** Takes all sessions that are left, so that whoever was cut off cannot come back. */
export async function crowd(url: string): Promise<() => Promise<void>> {
  const clients: pg.Client[] = [];
  try {
    for (;;) clients.push(await connectDirectly(url));
  } catch {
    // No session is left, which is the point.
    return async () => {
      await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
    };
  }
}
