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

/** The statements that insert many jobs, ready for one set of tables. */
export interface InsertJobsTemplates {
  readonly jobsTable: string;
  /** Of jobs none of which has a key. */
  readonly plain: Template;
  readonly keyed: Template;
}

const option = (name: string, type: string): string =>
  `coalesce((other->>'${name}')::${type}, $${name}::${type})`;

/**
 * The jobs as they were given. A second list tells wherein each differs from the
 * first job; it is null where none does: looking the options up in each job costs
 * 2 to 3 of 13 µs.
 */
const GIVEN = `
  select place, payload, other->>'key' as key, ${option("queue", "text")} as queue, ${option("name", "text")} as name,
    ${option("priority", "smallint")} as priority, ${option("max_attempts", "integer")} as max_attempts,
    ${dueAt("(other->>'run_at')", option("delay_ms", "float8"))} as available_at, other->'input' as input
  from rows from (jsonb_array_elements($payloads::text::jsonb), jsonb_array_elements($others::text::jsonb))
    with ordinality as given (payload, other, place)`;

/** The values of {@link COLUMNS}. */
const VALUES = "queue, name, payload, priority, max_attempts, available_at, statement_timestamp()";

const RETURNING = "returning id, queue, name, available_at";

/**
 * Each key is looked up by a probe of its own: as a join, the plan would follow
 * the estimate of 100 rows that PostgreSQL has for every JSON text. Of the two
 * places where it can be known, the jobs come first: their row tells more.
 */
const ITEM = `
  select given.*, hash, known.id as known_id, known.status as known_status,
    coalesce(known.input_hash <> hash, false) as conflict
  from (${GIVEN}) given
  cross join lateral (
    select case when key is not null then ${hashOf("coalesce(input, payload)")} end as hash
  ) hashed
  left join lateral (${known("given.name", "given.key")} limit 1) known on true`;

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
const INSERT_KEYED = `
  insert into {jobs} (id, ${COLUMNS}, idempotency_key, input_hash) overriding system value
  select id, ${VALUES}, key, hash from fresh order by name collate "C", key collate "C"
  ${KEEP_FIRST} ${RETURNING}`;

/** Rows with an ordinality come in its order without a sort; the numbers are drawn behind it. */
const INSERT_PLAIN = `insert into {jobs} (${COLUMNS}) select ${VALUES} from (${GIVEN}) given order by place ${RETURNING}`;

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
const KEYED = `
with item as materialized (${ITEM}), fresh as materialized (${FRESH_ITEMS}), job as (${INSERT_KEYED})
select (select string_agg(id::text, ',' order by place) from fresh) as drawn,
  case when (select count(*) from job) < (select count(*) from fresh)
    then (select coalesce(string_agg(id::text, ','), '') from job) end as inserted,
  (select json_agg(json_build_array(place - 1, known_id::text, known_status, conflict)) from item
    where known_id is not null)::text as known,
  ${WAKE} as woken`;

/**
 * Without keys there is nothing to look up, to hash, or to sort, which took 8 of
 * 19 µs per job: this costs the server no more than a bare insert of the same rows.
 */
const PLAIN = `
with job as (${INSERT_PLAIN})
select (select string_agg(id::text, ',' order by id) from job) as drawn, ${WAKE} as woken`;

/** Prepares the statements for a set of tables. */
export const insertJobsTemplates = (tables: TableNames): InsertJobsTemplates => ({
  jobsTable: tables.jobs,
  plain: template("insert_jobs", PLAIN, tables),
  keyed: template("insert_keyed_jobs", KEYED, tables),
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
  templates: InsertJobsTemplates,
  jobs: readonly NewJob[],
): Promise<readonly (InsertedJob | undefined)[]> {
  const [first] = jobs;
  if (first === undefined) return [];
  const isKeyed = jobs.some(({ idempotencyKey }) => idempotencyKey !== null);
  const others = jobs.map((job) => differences(job, first));
  const [row] = await executor.run(
    templates[isKeyed ? "keyed" : "plain"].bind({
      payloads: `[${jobs.map(({ payload }) => payload).join(",")}]`,
      others: others.some((text) => text !== "") ? `[${others.map(inBraces).join(",")}]` : null,
      queue: first.queue,
      name: first.name,
      priority: first.priority,
      max_attempts: first.maxAttempts,
      delay_ms: first.delayMs,
      jobs_table: templates.jobsTable,
    }),
  );
  return answersOf(row, jobs.length);
}

/** As the members of a JSON object: a short text costs less than an object and its JSON. */
function differences(job: NewJob, first: NewJob): string {
  let text = "";
  if (job.input !== null) text += `,"input":${job.input}`;
  if (job.name !== first.name) text += `,"name":${JSON.stringify(job.name)}`;
  if (job.queue !== first.queue) text += `,"queue":${JSON.stringify(job.queue)}`;
  if (job.priority !== first.priority) text += `,"priority":${job.priority}`;
  if (job.maxAttempts !== first.maxAttempts) text += `,"max_attempts":${job.maxAttempts}`;
  if (job.delayMs !== first.delayMs) text += `,"delay_ms":${job.delayMs}`;
  if (job.runAt !== null) text += `,"run_at":"${job.runAt}"`;
  if (job.idempotencyKey !== null) text += `,"key":${JSON.stringify(job.idempotencyKey)}`;
  return text;
}

const inBraces = (members: string): string => `{${members.slice(1)}}`;

function answersOf(row: Row | undefined, count: number): readonly (InsertedJob | undefined)[] {
  const answers = new Array<InsertedJob | undefined>(count).fill(undefined);
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

type Known = readonly [place: number, id: string, status: JobState, conflict: boolean];

const knownOf = (row: Row | undefined): readonly Known[] =>
  typeof row?.["known"] === "string" ? (JSON.parse(row["known"]) as Known[]) : [];

const numbers = (list: unknown): readonly number[] =>
  typeof list === "string" && list !== "" ? list.split(",").map(Number) : [];
