import type { JobState } from "../schema/job-states.js";
import type { TableNames } from "../schema/table-names.js";
import type { Executor, Row } from "./executor.js";
import { readStoredJob, type StoredJob, storedJobColumns } from "./stored-job.js";
import { template } from "./template.js";

/** Which jobs to list, and from where on. */
export interface JobsRequest {
  readonly status: JobState;
  /** Null: of any. */
  readonly queue: string | null;
  readonly name: string | null;
  readonly limit: number;
  /** Null: from the beginning. */
  readonly after: JobPlace | null;
}

/** Where a job stands in the order of its list. */
export interface JobPlace {
  readonly id: number;
  /** Microseconds since 1970, or `infinity` or `-infinity`. */
  readonly at: string;
  /** Of a job that has not ended: its queue and priority. */
  readonly queue: string;
  readonly priority: number;
}

/** A part of a list. */
export interface JobsFound {
  readonly jobs: readonly StoredJob[];
  /** Behind which place to go on; null where nothing is left. */
  readonly next: JobPlace | null;
}

/**
 * So many rows of the index are looked at for one page; what is rare among many others
 * makes a page shorter, not slower.
 */
const REACH = 20_000;

/** Exact for any time up to the year 294246, and without a session's zone or style of dates. */
const micros = (column: string): string =>
  `case when isfinite(${column}) then trunc(extract(epoch from ${column}) * 1000000)::text else ${column}::text end`;

/** An interval's factor is a double, which is exact up to the year 2255 only: so days and the rest by themselves, in UTC. */
const after = `case when $at::text like '%infinity' then $at::text::timestamptz else (
  'epoch'::timestamp + div($at::text::numeric, 86400000000)::int * interval '1 day'
    + mod($at::text::numeric, 86400000000)::bigint * interval '1 microsecond'
) at time zone 'UTC' end`;

/** An order that an index has. */
interface Order {
  readonly of: string;
  readonly by: string;
  readonly behind: string;
  readonly at: string;
}

/** The order in which workers take them, queue by queue. */
const open: Order = {
  of: "finished_at is null and blockers = 0",
  by: "job.queue, job.priority, job.available_at, job.id",
  behind: `(queue, priority, available_at, id) > ($after_queue::text, $after_priority::smallint, ${after}, $after_id::bigint)`,
  at: "available_at",
};

/** The same of one queue: said by itself, so that it is found in the index whatever the plan is made for. */
const openOfQueue: Order = { ...open, of: `${open.of} and queue = $queue::text` };

/** The latest first. */
const ended: Order = {
  of: `finished_at is not null and outcome = $status::text`,
  by: "job.finished_at desc, job.id desc",
  behind: `(finished_at, id) < (${after}, $after_id::bigint)`,
  at: "finished_at",
};

const textOf = ({ of, by, behind, at }: Order, isFirst: boolean): string => {
  const walked = `
    select ${storedJobColumns}, ${micros(at)} as at from {jobs} as job
    where ${of} ${isFirst ? "" : `and ${behind}`}
    order by ${by}`;
  return `
    with page as materialized (
      select * from (${walked} limit ${REACH}) as walked
      where status = $status::text and ($name::text is null or name = $name::text)
        and ($queue::text is null or queue = $queue::text)
      limit $limit::int
    )
    select to_json(page)::text as job, null as last from page
    union all
    -- A page that is not full has seen all there is, or as much as it may.
    select null, case when (select count(*) from page) < $limit::int then (
      select to_json(walked)::text from (${walked} offset ${REACH} - 1 limit 1) as walked
    ) end`;
};

/**
 * Lists the jobs of one state, page by page. Locks nothing.
 *
 * Its cost is bounded: it walks one index, and no further than so many rows.
 */
export function listJobs(
  tables: TableNames,
): (executor: Executor, request: JobsRequest) => Promise<JobsFound> {
  const prepare = (name: string, order: Order) => ({
    first: template(`list_${name}_jobs`, textOf(order, true), tables),
    further: template(`list_further_${name}_jobs`, textOf(order, false), tables),
  });
  const ofOpen = prepare("open", open);
  const ofOpenOfQueue = prepare("open_queue", openOfQueue);
  const ofEnded = prepare("ended", ended);
  const textsFor = ({ status, queue }: Pick<JobsRequest, "status" | "queue">) => {
    if (status !== "queued" && status !== "running") return ofEnded;
    return queue === null ? ofOpen : ofOpenOfQueue;
  };
  return async (executor, { after: place, ...request }) => {
    const { first, further } = textsFor(request);
    const rows = await executor.run(
      place === null
        ? first.bind(request)
        : further.bind({
            ...request,
            at: place.at,
            after_id: place.id,
            after_queue: place.queue,
            after_priority: place.priority,
          }),
    );
    return readPage(rows, request.limit);
  };
}

function readPage(rows: readonly Row[], limit: number): JobsFound {
  const found = rows.filter((row) => row["job"] !== null);
  const last =
    found.length < limit
      ? rows.find((row) => row["job"] === null)?.["last"]
      : found.at(-1)?.["job"];
  return {
    jobs: found.map(readStoredJob),
    next: typeof last === "string" ? placeOf(last) : null,
  };
}

function placeOf(text: string): JobPlace {
  const { id, at, queue, priority }: JobPlace = JSON.parse(text);
  return { id, at, queue, priority };
}
