import type { JobState } from "../schema/job-states.js";
import type { TableNames } from "../schema/table-names.js";
import {
  COLUMNS,
  dueAt,
  FRESH,
  hashOf,
  type InsertedJob,
  KEEP_FIRST,
  known,
  type NewJob,
  tooLate,
} from "./enqueue-parts.js";
import type { Executor, Row } from "./executor.js";
import { type Template, template } from "./template.js";

/** The statement that inserts many jobs, ready for one set of tables. */
export interface InsertJobsTemplate {
  readonly jobsTable: string;
  readonly statement: Template;
}

/** The name of a row of `given`: what equals the batch's first job is not written out in its JSON. */
const NAME = "coalesce(given.name, $name::text)";

/**
 * Each key is looked up by a probe of its own: as a join, the plan would follow
 * the estimate of 100 rows that PostgreSQL has for every JSON text. Of the two
 * places where it can be known, the jobs come first: their row tells more.
 */
const ITEM = `
  select given.ordinality as place, given.key,
    coalesce(given.queue, $queue::text) as queue, ${NAME} as name,
    coalesce(given.priority, $priority::smallint) as priority,
    coalesce(given.max_attempts, $max_attempts::integer) as max_attempts,
    coalesce(given.payload, 'null'::jsonb) as payload,
    ${dueAt("given.run_at", "coalesce(given.delay_ms, 0)")} as available_at,
    hashed.hash, known.id as known_id, known.status as known_status,
    coalesce(known.input_hash <> hashed.hash, false) as conflict
  from rows from (jsonb_to_recordset($items::text::jsonb) as (queue text, name text, payload jsonb, input jsonb,
    priority smallint, max_attempts integer, run_at text, delay_ms float8, key text))
    with ordinality as given
  cross join lateral (
    select case when given.key is not null
      then ${hashOf("coalesce(given.input, given.payload, 'null'::jsonb)")} end as hash
  ) hashed
  left join lateral (
    ${known(NAME, "given.key and given.key is not null")} limit 1
  ) known on true`;

/**
 * What is to be inserted, none of it if there is a conflict. Numbers are drawn in
 * the caller's order: it is the order among jobs that are due at the same time.
 */
const FRESH_ITEMS = `
  select nextval((select pg_get_serial_sequence($jobs_table::text, 'id')::regclass)) as id, ordered.*
  from (
    select * from item where known_id is null and not exists (select from item where conflict) order by place
  ) ordered`;

/** Whoever takes several keys takes them in one order: opposite orders would deadlock. */
const INSERT = `
  insert into {jobs} (id, ${COLUMNS}, idempotency_key, input_hash) overriding system value
  select id, queue, name, payload, priority, max_attempts, available_at, statement_timestamp(), key, hash
  from fresh order by name collate "C", key collate "C"
  ${KEEP_FIRST}
  returning id, queue, name, available_at`;

/**
 * Wakes one worker more than there are jobs, of each queue and name: one probe
 * for each of these, whatever the number of jobs, and none when nobody waits.
 */
const WAKE = `(select count(pg_notify('{channel}', worker.id)) from (
    select distinct chosen.id from (
      select queue, name, count(*) as jobs, min(available_at) as due from job
      where available_at <= (
        select statement_timestamp() + max(poll_interval_ms) * interval '1 millisecond'
        from {workers} where waiting and ${FRESH}
      )
      group by queue, name
    ) line cross join lateral (
      select id from {workers}
      where waiting and ${FRESH}
        and (queues is null or line.queue = any(queues)) and line.name = any(names) ${tooLate("line.due")}
      order by random() limit line.jobs + 1
    ) chosen
  ) worker)`;

/** One row, whatever the number of jobs; it lists who went in only where a key was taken meanwhile. */
const INSERT_MANY = `
with item as materialized (${ITEM}), fresh as materialized (${FRESH_ITEMS}), job as (${INSERT})
select (select string_agg(id::text, ',' order by place) from fresh) as drawn,
  case when (select count(*) from job) < (select count(*) from fresh)
    then (select coalesce(string_agg(id::text, ','), '') from job) end as inserted,
  (select json_agg(json_build_array(place - 1, known_id::text, known_status, conflict)) from item
    where known_id is not null)::text as known,
  ${WAKE} as woken`;

/** Prepares the statement for a set of tables. */
export const insertJobsTemplate = (tables: TableNames): InsertJobsTemplate => ({
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
  if (job.input !== null) text += `,"input":${job.input}`;
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
