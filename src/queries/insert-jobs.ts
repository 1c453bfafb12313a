import type { JobState } from "../schema/job-states.js";
import type { TableNames } from "../schema/table-names.js";
import type { Executor, Row } from "./executor.js";
import { type Template, template } from "./template.js";

/** A job to insert: checked, complete, and text where JSON is meant. */
export interface NewJob {
  readonly name: string;
  readonly queue: string;
  readonly priority: number;
  readonly maxAttempts: number;
  /** ISO 8601; null to start `delayMs` after the database's now. */
  readonly runAt: string | null;
  readonly delayMs: number;
  readonly idempotencyKey: string | null;
  /** JSON text. */
  readonly payload: string;
  /** JSON text of what the caller gave, where it differs from `payload`: the input hash is taken of it. */
  readonly input: string | null;
}

/** What an insert tells of one job: itself, or the one that had its key before. */
export interface InsertedJob {
  readonly id: number;
  readonly created: boolean;
  readonly status: JobState;
  /** The key is taken by a job with another input. */
  readonly conflict: boolean;
}

/** The statements of enqueue, ready for one set of tables. */
export interface InsertTemplates {
  readonly channel: string;
  readonly jobsTable: string;
  readonly one: Template;
  readonly keyed: Template;
  readonly many: Template;
}

/** A worker not seen for longer is taken for dead: waking it would waste the notification. */
const FRESH = "seen_at > statement_timestamp() - interval '30 seconds'";

/** The columns that each insert writes, so that no way in forgets an option. */
const COLUMNS = "queue, name, payload, priority, max_attempts, available_at, created_at";

/** `now()` is when the caller's transaction began, which may be long ago. */
const availableAt = (runAt: string, delayMs: string): string =>
  `coalesce(${runAt}::timestamptz, statement_timestamp() + ${delayMs} * interval '1 millisecond')`;

const valuesOf = (payload: string): string =>
  `$queue::text, $name::text, ${payload}, $priority::smallint, $max_attempts::integer,
  ${availableAt("$run_at::text", "$delay_ms::float8")}, statement_timestamp()`;

/** The canonical form of the input decides: key order and white space do not. */
export const hashOf = (json: string): string => `sha256(convert_to((${json})::text, 'UTF8'))`;

/**
 * Wakes waiting workers that serve the new row `job` and would look too late.
 *
 * Two of them, at random, so that one that is about to stop does not hold the job
 * up. It stands in a select list: in a CTE that nobody reads it would not run.
 */
const WAKE_FOR_ONE = `(select count(pg_notify($channel::text, worker.id)) from (
    select id from {workers}
    where waiting and ${FRESH}
      and (queues is null or job.queue = any(queues)) and job.name = any(names)
      and job.available_at <= statement_timestamp() + poll_interval_ms * interval '1 millisecond'
    order by random() limit 2
  ) worker)`;

const INSERT_ONE = `
insert into {jobs} as job (${COLUMNS}) values (${valuesOf("$payload::text::jsonb")})
returning job.id::text as id, ${WAKE_FOR_ONE} as woken`;

const INSERT_KEYED = `
with input as (
  select payload, ${hashOf("coalesce($input::text::jsonb, payload)")} as hash
  from (select $payload::text::jsonb as payload) given
), known as (
  select id, status, input_hash from {jobs}
  where name = $name::text and idempotency_key = $key::text
), processed as (
  select job_id, input_hash from {processedKeys}
  where name = $name::text and idempotency_key = $key::text
    and (expires_at is null or expires_at > statement_timestamp())
), inserted as (
  insert into {jobs} as job (${COLUMNS}, idempotency_key, input_hash)
  select ${valuesOf("input.payload")}, $key::text, input.hash from input
  -- An insert that is going to be a duplicate would draw a number from the identity.
  where not exists (select from known) and not exists (select from processed)
  -- "do update" would lock the job's row until the caller's transaction ends.
  on conflict (name, idempotency_key) where idempotency_key is not null do nothing
  returning job.id, ${WAKE_FOR_ONE} as woken
)
select coalesce(inserted.id, known.id, processed.job_id)::text as id,
  inserted.id is not null as created,
  case when inserted.id is not null then 'queued' else coalesce(known.status, 'done') end as status,
  coalesce(coalesce(known.input_hash, processed.input_hash) <> input.hash, false) as conflict,
  inserted.woken
from input left join inserted on true left join known on true left join processed on true`;

/**
 * Each key is looked up by a probe of its own: as a join, the plan would follow
 * the estimate of 100 rows that PostgreSQL has for every JSON text.
 */
const INSERT_MANY = `
with item as materialized (
  select given.place, given.queue, given.name, given.priority, given.max_attempts, given.key,
    coalesce(given.payload, 'null'::jsonb) as payload,
    ${availableAt("given.run_at", "given.delay_ms")} as available_at,
    hashed.hash, coalesce(known.id, processed.job_id) as known_id,
    case when known.id is null and processed.job_id is not null then 'done' else known.status end as known_status,
    coalesce(coalesce(known.input_hash, processed.input_hash) <> hashed.hash, false) as conflict
  from jsonb_to_recordset($items::text::jsonb) as given(place integer, queue text, name text, payload jsonb,
    input jsonb, priority smallint, max_attempts integer, run_at text, delay_ms float8, key text)
  cross join lateral (
    select case when given.key is not null
      then ${hashOf("coalesce(given.input, given.payload, 'null'::jsonb)")} end as hash
  ) hashed
  left join lateral (
    select id, status, input_hash from {jobs}
    where given.key is not null and name = given.name and idempotency_key = given.key limit 1
  ) known on true
  left join lateral (
    select job_id, input_hash from {processedKeys}
    where given.key is not null and name = given.name and idempotency_key = given.key
      and (expires_at is null or expires_at > statement_timestamp()) limit 1
  ) processed on true
), fresh as materialized (
  -- Numbers are drawn in the caller's order: it is the order among jobs due at the same time.
  select nextval((select pg_get_serial_sequence($jobs_table::text, 'id')::regclass)) as id, ordered.*
  from (
    select * from item where known_id is null and not exists (select from item where conflict) order by place
  ) ordered
), job as (
  insert into {jobs} (id, ${COLUMNS}, idempotency_key, input_hash) overriding system value
  select id, queue, name, payload, priority, max_attempts, available_at, statement_timestamp(), key, hash
  -- Whoever takes several keys takes them in this order: opposite orders would deadlock.
  from fresh order by name collate "C", key collate "C"
  on conflict (name, idempotency_key) where idempotency_key is not null do nothing
  returning id, queue, name, available_at
), horizon as (
  select statement_timestamp() + max(poll_interval_ms) * interval '1 millisecond' as until
  from {workers} where waiting and ${FRESH}
), line as (
  -- One probe per queue and name, whatever the number of jobs; none at all when nobody waits.
  select queue, name, count(*) as jobs, min(available_at) as due from job
  where available_at <= (select until from horizon) group by queue, name
)
select (select string_agg(id::text, ',' order by place) from fresh) as drawn,
  case when (select count(*) from job) < (select count(*) from fresh)
    then (select coalesce(string_agg(id::text, ','), '') from job) end as inserted,
  (select json_agg(json_build_array(place, known_id::text, known_status, conflict)) from item
    where known_id is not null)::text as known,
  (select count(pg_notify($channel::text, worker.id)) from (
    select distinct chosen.id from line cross join lateral (
      select id from {workers}
      where waiting and ${FRESH}
        and (queues is null or line.queue = any(queues)) and line.name = any(names)
        and line.due <= statement_timestamp() + poll_interval_ms * interval '1 millisecond'
      order by random() limit line.jobs + 1
    ) chosen
  ) worker) as woken`;

/** Prepares the statements for a set of tables. */
export function insertTemplates(tables: TableNames): InsertTemplates {
  return {
    channel: tables.channel,
    jobsTable: tables.jobs,
    one: template("insert_job", INSERT_ONE, tables),
    keyed: template("insert_keyed_job", INSERT_KEYED, tables),
    many: template("insert_jobs", INSERT_MANY, tables),
  };
}

/**
 * Inserts one job, or finds the one that has its key; wakes a worker if one waits.
 *
 * Locks no row that was there before. It waits for a transaction that is
 * inserting the same key; if that one commits, the answer is undefined, since
 * its row is in nobody's view yet.
 */
export async function insertJob(
  executor: Executor,
  templates: InsertTemplates,
  job: NewJob,
): Promise<InsertedJob | undefined> {
  const key = job.idempotencyKey;
  const values = {
    queue: job.queue,
    name: job.name,
    payload: job.payload,
    priority: job.priority,
    max_attempts: job.maxAttempts,
    run_at: job.runAt,
    delay_ms: job.delayMs,
    channel: templates.channel,
  };
  if (key === null) {
    const [row] = await executor.run(templates.one.bind(values));
    return row && { id: Number(row["id"]), created: true, status: "queued", conflict: false };
  }
  const [row] = await executor.run(templates.keyed.bind({ ...values, key, input: job.input }));
  return row === undefined || row["id"] === null ? undefined : toInserted(row);
}

const toInserted = (row: Row): InsertedJob => ({
  id: Number(row["id"]),
  created: row["created"] === true,
  status: row["status"] as JobState,
  conflict: row["conflict"] === true,
});

/**
 * Inserts jobs in one statement and answers in their order; wakes workers that wait.
 *
 * No two may share a name and key. If one's key is taken by another input, none is
 * inserted and only the jobs with a known key are answered. Locks and waits as
 * {@link insertJob} does, key by key in sorted order.
 */
export async function insertJobs(
  executor: Executor,
  templates: InsertTemplates,
  jobs: readonly NewJob[],
): Promise<readonly (InsertedJob | undefined)[]> {
  const [row] = await executor.run(
    templates.many.bind({
      items: itemsText(jobs),
      jobs_table: templates.jobsTable,
      channel: templates.channel,
    }),
  );
  const answers: (InsertedJob | undefined)[] = Array.from(jobs, () => undefined);
  for (const [place, id, status, conflict] of knownOf(row)) {
    answers[place] = { id: Number(id), created: false, status, conflict };
  }
  if (answers.some((answer) => answer?.conflict)) return answers;
  const drawn = numbers(row?.["drawn"]);
  // Only when a key was taken meanwhile does the row list which ones went in.
  const inserted = typeof row?.["inserted"] === "string" ? new Set(numbers(row["inserted"])) : undefined;
  let next = 0;
  return answers.map((answer) => {
    if (answer !== undefined) return answer;
    const id = drawn[next++];
    if (id === undefined || inserted?.has(id) === false) return undefined;
    return { id, created: true, status: "queued", conflict: false };
  });
}

/** One JSON text for any number of jobs; payloads go in as they are, so they are read once. */
function itemsText(jobs: readonly NewJob[]): string {
  return `[${jobs.map(itemText).join(",")}]`;
}

function itemText(job: NewJob, place: number): string {
  const { payload, input, idempotencyKey: key, runAt, ...rest } = job;
  const fields = JSON.stringify({
    place,
    name: rest.name,
    queue: rest.queue,
    priority: rest.priority,
    max_attempts: rest.maxAttempts,
    delay_ms: rest.delayMs,
    ...(runAt === null ? {} : { run_at: runAt }),
    ...(key === null ? {} : { key }),
  });
  return `${fields.slice(0, -1)},"payload":${payload}${input === null ? "" : `,"input":${input}`}}`;
}

type Known = readonly [place: number, id: string, status: JobState, conflict: boolean];

const knownOf = (row: Row | undefined): readonly Known[] =>
  typeof row?.["known"] === "string" ? (JSON.parse(row["known"]) as Known[]) : [];

const numbers = (list: unknown): readonly number[] =>
  typeof list === "string" && list !== "" ? list.split(",").map(Number) : [];
