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
  wakeFor,
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

/** An option of a row of `given`: its own, else what is usual in the batch. */
const option = (name: string, type: string): string =>
  `coalesce((other->>'${name}')::${type}, $${name}::${type})`;

/**
 * The jobs as they were given. A second list tells wherein each differs from the
 * first job; it is null where none does: looking the options up in each job costs
 * 2 to 3 of 13 µs.
 */
const GIVEN = `
  select place, payload, other->>'idempotencyKey' as key, ${option("queue", "text")} as queue, ${option("name", "text")} as name,
    ${option("priority", "smallint")} as priority, ${option("maxAttempts", "integer")} as max_attempts,
    ${dueAt("(other->>'runAt')", option("delayMs", "float8"))} as available_at, (other->>'input')::jsonb as input
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
  select given.*, case when key is not null then ${hashOf("coalesce(input, payload)")} end as hash,
    known.id as known_id, known.status as known_status, known.input_hash as known_hash
  from (${GIVEN}) given
  left join lateral (${known("given.name", "given.key")} limit 1) known on true`;

/**
 * What is to be inserted, none of it if there is a conflict. Numbers are drawn in
 * the caller's order: it is the order among jobs that are due at the same time.
 */
const FRESH_ITEMS = `
  select nextval((select pg_get_serial_sequence($jobsTable::text, 'id')::regclass)) as id, ordered.*
  from (
    select * from item where known_id is null and not exists (select from item where known_hash <> hash) order by place
  ) ordered`;

/** Whoever takes several keys takes them in one order: opposite orders would deadlock. */
const INSERT_KEYED = `
  insert into {jobs} (id, ${COLUMNS}, idempotency_key, input_hash) overriding system value
  select id, ${VALUES}, key, hash from fresh order by name collate "C", key collate "C"
  ${KEEP_FIRST} ${RETURNING}`;

/** Rows with an ordinality come in its order without a sort; the numbers are drawn behind it. */
const INSERT_PLAIN = `insert into {jobs} (${COLUMNS}) select ${VALUES} from (${GIVEN}) given order by place ${RETURNING}`;

/** Only those that are due before such a worker looks again. */
const WAKE = wakeFor(
  `select queue, name, count(*) as jobs, min(available_at) as due from job
    where available_at <= (
      select statement_timestamp() + max(poll_interval_ms) * interval '1200 microseconds'
      from {workers} where waiting and ${FRESH}
    )
    group by queue, name`,
  tooLate("line.due"),
);

/** One row, whatever the number of jobs. A number stays empty where the key was taken meanwhile. */
const KEYED = `
with item as (${ITEM}), fresh as (${FRESH_ITEMS}), job as (${INSERT_KEYED})
select (select string_agg(case when id in (select id from job) then id::text else '' end, ',' order by place) from fresh) as drawn,
  (select json_agg(json_build_array(place - 1, known_id, known_status, known_hash <> hash)) from item
    where known_id is not null)::text as known,
  ${WAKE} as woken`;

/**
 * Without keys there is nothing to look up, to hash, or to sort, which took 8 of
 * the server's 19 µs per job: what is left is 10 to 25 % above a bare insert.
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
  const usual = { ...first, runAt: null, idempotencyKey: null, input: null };
  const others = jobs.map((job) => differences(job, usual));
  const isKeyed = jobs.some(({ idempotencyKey }) => idempotencyKey !== null);
  const [row] = await executor.run(
    templates[isKeyed ? "keyed" : "plain"].bind({
      ...usual,
      payloads: `[${jobs.map(({ payload }) => payload).join(",")}]`,
      others: others.some((other) => other !== "{}") ? `[${others.join(",")}]` : null,
      jobsTable: templates.jobsTable,
    }),
  );
  return answersOf(row, jobs.length);
}

/** All but the payload, which goes in as it is, so that it is read once. */
const FIELDS = [
  "queue",
  "name",
  "priority",
  "maxAttempts",
  "runAt",
  "delayMs",
  "idempotencyKey",
  "input",
] as const satisfies readonly (keyof NewJob)[];

/** As JSON. Put together by hand: for most jobs, there is nothing in it. */
function differences(job: NewJob, usual: NewJob): string {
  let members = "";
  for (const field of FIELDS) {
    if (job[field] === usual[field]) continue;
    members += `${members && ","}"${field}":${JSON.stringify(job[field])}`;
  }
  return `{${members}}`;
}

type Known = readonly [place: number, id: number, status: JobState, conflict: boolean | null];

function answersOf(row: Row | undefined, count: number): readonly (InsertedJob | undefined)[] {
  const answers: (InsertedJob | undefined)[] = Array.from({ length: count });
  const { drawn, known } = row as { drawn: string | null; known?: string | null };
  for (const [place, id, status, conflict] of JSON.parse(known ?? "[]") as Known[]) {
    answers[place] = { id, created: false, status, conflict: conflict === true };
  }
  const ids = (drawn ?? "").split(",");
  let next = 0;
  return answers.map((answer) => answer ?? newJob(ids[next++]));
}

/** None are drawn where there is a conflict, and one is empty where its key was taken meanwhile. */
const newJob = (id: string | undefined): InsertedJob | undefined =>
  id ? { id: Number(id), created: true, status: "queued", conflict: false } : undefined;
