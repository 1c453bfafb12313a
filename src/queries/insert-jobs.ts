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
  /** One job without a key, and one with. */
  readonly one: OneTemplates;
  readonly keyed: OneTemplates;
  readonly many: Template;
}

/** Nearly every job is due at once; its text is shorter, and planned at each call. */
interface OneTemplates {
  readonly now: Template;
  readonly later: Template;
}

type When = keyof OneTemplates;

/** A worker not seen for longer is taken for dead: waking it would waste the notification. */
const FRESH = "seen_at > statement_timestamp() - interval '30 seconds'";

/** The columns that each insert writes, so that no way in forgets an option. */
const COLUMNS = "queue, name, payload, priority, max_attempts, available_at, created_at";

/** `now()` is when the caller's transaction began, which may be long ago. */
const dueAt = (runAt: string, delayMs: string): string =>
  `coalesce(${runAt}::timestamptz, statement_timestamp() + ${delayMs} * interval '1 millisecond')`;

const availableAt = { now: "statement_timestamp()", later: dueAt("$run_at::text", "$delay_ms::float8") };

const valuesOf = (when: When): string =>
  `$queue::text, $name::text, $payload::text::jsonb, $priority::smallint, $max_attempts::integer,
  ${availableAt[when]}, statement_timestamp()`;

/** A worker that polls before the job is due need not be woken. */
const tooLate = (due: string): string =>
  `and ${due} <= statement_timestamp() + poll_interval_ms * interval '1 millisecond'`;

/**
 * Wakes waiting workers that serve the new job and would look too late.
 *
 * Two of them, at random, so that one that is about to stop does not hold the job
 * up. It stands in a select list: in a CTE that nobody reads it would not run.
 */
const wakeForOne = (when: When): string =>
  `(select count(pg_notify($channel::text, id)) from (
    select id from {workers}
    where waiting and ${FRESH}
      and (queues is null or $queue::text = any(queues)) and $name::text = any(names)
      ${when === "now" ? "" : tooLate(availableAt.later)}
    order by random() limit 2
  ) worker)`;

/** The canonical form of the input decides: key order and white space do not. */
export const hashOf = (json: string): string => `sha256(convert_to((${json})::text, 'UTF8'))`;

const insertOne = (when: When): string => `
insert into {jobs} (${COLUMNS}) values (${valuesOf(when)})
returning id::text as id, ${wakeForOne(when)} as woken`;

const INPUT_HASH = hashOf("coalesce($input::text, $payload::text)::jsonb");

const insertKeyed = (when: When): string => `
with known as (
  select id, status, input_hash from {jobs}
  where name = $name::text and idempotency_key = $key::text
  -- Comes second: where the job is still there, its row tells more.
  union all select job_id, 'done', input_hash from {processedKeys}
  where name = $name::text and idempotency_key = $key::text
    and (expires_at is null or expires_at > statement_timestamp())
), inserted as (
  insert into {jobs} (${COLUMNS}, idempotency_key, input_hash)
  select ${valuesOf(when)}, $key::text, ${INPUT_HASH}
  -- An insert that is going to be a duplicate would draw a number, and wait for whoever deletes the job.
  where not exists (select from known)
  -- "do update" would lock the job's row until the caller's transaction ends.
  on conflict (name, idempotency_key) where idempotency_key is not null do nothing
  returning id
)
select id::text as id, true as created, 'queued' as status, false as conflict, ${wakeForOne(when)} as woken
from inserted
union all select id::text, false, status, coalesce(input_hash <> ${INPUT_HASH}, false), null from known`;

/**
 * Each key is looked up by a probe of its own: as a join, the plan would follow
 * the estimate of 100 rows that PostgreSQL has for every JSON text.
 */
const INSERT_MANY = `
with item as materialized (
  select given.place, given.key,
    -- Only what differs from the batch's first job is written out: JSON is most of the work here.
    coalesce(given.queue, $queue::text) as queue, coalesce(given.name, $name::text) as name,
    coalesce(given.priority, $priority::smallint) as priority,
    coalesce(given.max_attempts, $max_attempts::integer) as max_attempts,
    coalesce(given.payload, 'null'::jsonb) as payload,
    ${dueAt("given.run_at", "coalesce(given.delay_ms, 0)")} as available_at,
    hashed.hash, coalesce(known.id, processed.job_id) as known_id,
    case when known.id is null and processed.job_id is not null then 'done' else known.status end as known_status,
    coalesce(coalesce(known.input_hash, processed.input_hash) <> hashed.hash, false) as conflict
  from rows from (jsonb_to_recordset($items::text::jsonb) as (queue text, name text, payload jsonb, input jsonb,
    priority smallint, max_attempts integer, run_at text, delay_ms float8, key text))
    with ordinality as given(queue, name, payload, input, priority, max_attempts, run_at, delay_ms, key, place)
  cross join lateral (
    select case when given.key is not null
      then ${hashOf("coalesce(given.input, given.payload, 'null'::jsonb)")} end as hash
  ) hashed
  left join lateral (
    select id, status, input_hash from {jobs}
    where given.key is not null and name = coalesce(given.name, $name::text) and idempotency_key = given.key limit 1
  ) known on true
  left join lateral (
    select job_id, input_hash from {processedKeys}
    where given.key is not null and name = coalesce(given.name, $name::text) and idempotency_key = given.key
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
  (select json_agg(json_build_array(place - 1, known_id::text, known_status, conflict)) from item
    where known_id is not null)::text as known,
  (select count(pg_notify($channel::text, worker.id)) from (
    select distinct chosen.id from line cross join lateral (
      select id from {workers}
      where waiting and ${FRESH}
        and (queues is null or line.queue = any(queues)) and line.name = any(names)
        ${tooLate("line.due")}
      order by random() limit line.jobs + 1
    ) chosen
  ) worker) as woken`;

/** Prepares the statements for a set of tables. */
export function insertTemplates(tables: TableNames): InsertTemplates {
  return {
    channel: tables.channel,
    jobsTable: tables.jobs,
    one: {
      now: template("insert_job", insertOne("now"), tables),
      later: template("insert_later_job", insertOne("later"), tables),
    },
    keyed: {
      now: template("insert_keyed_job", insertKeyed("now"), tables),
      later: template("insert_later_keyed_job", insertKeyed("later"), tables),
    },
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
  const when: When = job.runAt === null && job.delayMs === 0 ? "now" : "later";
  if (key === null) {
    const [row] = await executor.run(templates.one[when].bind(values));
    return row && { id: Number(row["id"]), created: true, status: "queued", conflict: false };
  }
  const [row] = await executor.run(templates.keyed[when].bind({ ...values, key, input: job.input }));
  return row && toInserted(row);
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
  const [first] = jobs;
  if (first === undefined) return [];
  const [row] = await executor.run(
    templates.many.bind({
      items: `[${jobs.map((job) => itemText(job, first)).join(",")}]`,
      queue: first.queue,
      name: first.name,
      priority: first.priority,
      max_attempts: first.maxAttempts,
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

/** Payloads go in as they are, so that they are read once; the rest only where it differs from the first job's. */
function itemText(job: NewJob, first: NewJob): string {
  let text = `{"payload":${job.payload}`;
  if (job.input !== null && job.idempotencyKey !== null) text += `,"input":${job.input}`;
  if (job.name !== first.name) text += `,"name":${JSON.stringify(job.name)}`;
  if (job.queue !== first.queue) text += `,"queue":${JSON.stringify(job.queue)}`;
  if (job.priority !== first.priority) text += `,"priority":${job.priority}`;
  if (job.maxAttempts !== first.maxAttempts) text += `,"max_attempts":${job.maxAttempts}`;
  if (job.delayMs !== 0) text += `,"delay_ms":${job.delayMs}`;
  if (job.runAt !== null) text += `,"run_at":"${job.runAt}"`;
  if (job.idempotencyKey !== null) text += `,"key":${JSON.stringify(job.idempotencyKey)}`;
  return `${text}}`;
}

type Known = readonly [place: number, id: string, status: JobState, conflict: boolean];

const knownOf = (row: Row | undefined): readonly Known[] =>
  typeof row?.["known"] === "string" ? (JSON.parse(row["known"]) as Known[]) : [];

const numbers = (list: unknown): readonly number[] =>
  typeof list === "string" && list !== "" ? list.split(",").map(Number) : [];
