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
import type { Executor } from "./executor.js";
import { type Template, template } from "./template.js";

/** Nearly every job is due at once; its text is shorter, and it is planned at each call. */
interface Texts {
  readonly now: Template;
  readonly later: Template;
}

type When = keyof Texts;

/** The statements that insert one job, ready for one set of tables. */
export interface InsertJobTemplates {
  readonly plain: Texts;
  readonly keyed: Texts;
}

const availableAt = {
  now: "statement_timestamp()",
  later: dueAt("$runAt::text", "$delayMs::float8"),
};

const valuesOf = (when: When): string =>
  `$queue::text, $name::text, $payload::text::jsonb, $priority::smallint, $maxAttempts::integer,
  ${availableAt[when]}, statement_timestamp()`;

/**
 * Wakes waiting workers that serve the new job and would look too late.
 *
 * Two of them, at random, so that one that is about to stop does not hold the job
 * up. It stands in `returning`, where it runs for a job that was inserted.
 */
const wakeForOne = (when: When): string =>
  `array(
    select pg_notify('{channel}', id)::text from {workers}
    where waiting and ${FRESH}
      and coalesce($queue::text = any(queues), true) and $name::text = any(names)
      ${when === "now" ? "" : tooLate(availableAt.later)}
    order by random() limit 2
  ) as woken`;

const insertPlain = (when: When): string => `
insert into {jobs} (${COLUMNS}) values (${valuesOf(when)})
returning id::text as id, ${wakeForOne(when)}`;

const inputHash = (suffix = ""): string =>
  hashOf(`(coalesce($input::text, $payload::text)${suffix})::jsonb`);

/** Names a column, so that the planner leaves it alone: only a repeat needs this hash. */
const REPEATED_HASH = inputHash(" || left(status, 0)");

/**
 * A key that is known is not even tried: the insert would draw a number, and wait
 * for whoever deletes the job. Of the two places where it can be known, the jobs
 * come first: their row tells more. A new job has no status yet.
 */
const insertKeyed = (when: When): string => `
with known as (${known("$name::text", "$idempotencyKey::text")}), inserted as (
  insert into {jobs} (${COLUMNS}, idempotency_key, input_hash)
  select ${valuesOf(when)}, $idempotencyKey::text, ${inputHash()}
  where not exists (select from known)
  ${KEEP_FIRST}
  returning id, ${wakeForOne(when)}
)
select id::text as id, null as status, null::boolean as conflict from inserted
union all select id::text, status, input_hash <> ${REPEATED_HASH} from known`;

/** Prepares the statements for a set of tables. */
export function insertJobTemplates(tables: TableNames): InsertJobTemplates {
  const texts = (kind: string, textFor: (when: When) => string): Texts => ({
    now: template(`insert_${kind}job`, textFor("now"), tables),
    later: template(`insert_later_${kind}job`, textFor("later"), tables),
  });
  return { plain: texts("", insertPlain), keyed: texts("keyed_", insertKeyed) };
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
  templates: InsertJobTemplates,
  job: NewJob,
): Promise<InsertedJob | undefined> {
  const texts = job.idempotencyKey === null ? templates.plain : templates.keyed;
  const when: When = job.runAt === null && job.delayMs === 0 ? "now" : "later";
  const [row] = await executor.run(texts[when].bind({ ...job }));
  if (row === undefined) return undefined;
  const status = row["status"] as JobState | null | undefined;
  return {
    id: Number(row["id"]),
    created: status == null,
    status: status ?? "queued",
    conflict: row["conflict"] === true,
  };
}
