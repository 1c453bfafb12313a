import type { JobState } from "../schema/job-states.js";
import type { TableNames } from "../schema/table-names.js";
import { hashOf, type InsertedJob, type NewJob } from "./enqueue-parts.js";
import type { Executor } from "./executor.js";
import { type Template, template } from "./template.js";

const FIND_ENQUEUED = `
select given.place, coalesce(known.id, processed.job_id)::text as id,
  case when known.id is null then 'done' else known.status end as status,
  coalesce(coalesce(known.input_hash, processed.input_hash) <> hashed.hash, false) as conflict
from jsonb_to_recordset($items::text::jsonb) as given(place integer, name text, key text, input jsonb)
cross join lateral (select ${hashOf("coalesce(given.input, 'null'::jsonb)")} as hash) hashed
left join lateral (
  select id, status, input_hash from {jobs}
  where name = given.name and idempotency_key = given.key limit 1
) known on true
left join lateral (
  select job_id, input_hash from {processedKeys}
  where name = given.name and idempotency_key = given.key
    and (expires_at is null or expires_at > statement_timestamp()) limit 1
) processed on true
where known.id is not null or processed.job_id is not null`;

/** Prepares the statement for a set of tables. */
export const findEnqueuedTemplate = (tables: TableNames): Template =>
  template("find_enqueued", FIND_ENQUEUED, tables);

/**
 * Finds who has the keys of these jobs, where an insert gave no answer; in their order.
 *
 * Undefined stands where nobody has the key any more. Locks nothing.
 */
export async function findEnqueued(
  executor: Executor,
  statement: Template,
  jobs: readonly NewJob[],
): Promise<readonly (InsertedJob | undefined)[]> {
  const items = jobs.map(
    ({ name, idempotencyKey, input, payload }, place) =>
      `${JSON.stringify({ place, name, key: idempotencyKey }).slice(0, -1)},"input":${input ?? payload}}`,
  );
  const answers: (InsertedJob | undefined)[] = Array.from(jobs, () => undefined);
  for (const row of await executor.run(statement.bind({ items: `[${items.join(",")}]` }))) {
    answers[Number(row["place"])] = {
      id: Number(row["id"]),
      created: false,
      status: row["status"] as JobState,
      conflict: row["conflict"] === true,
    };
  }
  return answers;
}
