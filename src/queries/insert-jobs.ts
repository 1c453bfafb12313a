import type { JobState } from "../schema/job-states.js";
import type { TableNames } from "../schema/table-names.js";
import {
  COLUMNS,
  dueAt,
  FRESH,
  hashOf,
  type InsertedJob,
  type NewJob,
  tooLate,
} from "./enqueue-parts.js";
import type { Executor, Row } from "./executor.js";
import { type Template, template } from "./template.js";

/** The statement that inserts many jobs, ready for one set of tables. */
export interface InsertJobsTemplate {
  readonly channel: string;
  readonly jobsTable: string;
  readonly statement: Template;
}

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

/** Prepares the statement for a set of tables. */
export const insertJobsTemplate = (tables: TableNames): InsertJobsTemplate => ({
  channel: tables.channel,
  jobsTable: tables.jobs,
  statement: template("insert_jobs", INSERT_MANY, tables),
});

/**
 * Inserts jobs in one statement and answers in their order; wakes workers that wait.
 *
 * No two may share a name and key. If one's key is taken by another input, none is
 * inserted and only the jobs with a known key are answered. Locks and waits as
 * `insertJob` does, key by key in sorted order.
 */
export async function insertJobs(
  executor: Executor,
  prepared: InsertJobsTemplate,
  jobs: readonly NewJob[],
): Promise<readonly (InsertedJob | undefined)[]> {
  const [first] = jobs;
  if (first === undefined) return [];
  const [row] = await executor.run(
    prepared.statement.bind({
      items: `[${jobs.map((job) => itemText(job, first)).join(",")}]`,
      queue: first.queue,
      name: first.name,
      priority: first.priority,
      max_attempts: first.maxAttempts,
      jobs_table: prepared.jobsTable,
      channel: prepared.channel,
    }),
  );
  const answers: (InsertedJob | undefined)[] = Array.from(jobs, () => undefined);
  for (const [place, id, status, conflict] of knownOf(row)) {
    answers[place] = { id: Number(id), created: false, status, conflict };
  }
  if (answers.some((answer) => answer?.conflict)) return answers;
  const drawn = numbers(row?.["drawn"]);
  // Only when a key was taken meanwhile does the row list which ones went in.
  const inserted =
    typeof row?.["inserted"] === "string" ? new Set(numbers(row["inserted"])) : undefined;
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
