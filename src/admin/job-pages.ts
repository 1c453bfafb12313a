import { QueueError } from "../errors.js";
import type { JobPlace, JobsRequest } from "../queries/list-jobs.js";
import type { StoredJob } from "../queries/stored-job.js";
import {
  checkInteger,
  checkText,
  invalidOption,
  refuseUnknownOptions,
} from "../registry/option-checks.js";
import { JOB_STATES, type JobState } from "../schema/job-states.js";

/** Which jobs to list, and from where on. */
export interface JobFilter {
  /** The state they are in. */
  readonly status: JobState;
  /** Only those of one name, also of one that the registry does not have. @default any */
  readonly name?: string | undefined;
  /** Only those of one queue. @default any */
  readonly queue?: string | undefined;
  /** How many at most: 1 to 1,000. @default 100 */
  readonly limit?: number | undefined;
  /** Goes on behind an earlier page: its `next`, with the same filter. @default the beginning */
  readonly after?: string | undefined;
}

/** Has the editor propose the names of the registry, where jobs of others may be meant too. */
export interface NamedFilter<N extends string> {
  readonly name?: N | (string & {}) | undefined;
}

/** A part of a list of jobs. */
export interface JobPage {
  /** May be fewer than the limit, or none, although there are more. */
  readonly jobs: readonly StoredJob[];
  /** What to give as `after` for the next page; null behind the last one. */
  readonly next: string | null;
}

/** The longest `next` that can have been given out: three names, escaped, and some numbers. */
const MAX_CURSOR_BYTES = 5_000;

/** @throws {QueueError} `INVALID_OPTION` when an option is unknown, out of its range, or no state. */
export function checkFilter(filter: JobFilter): JobsRequest {
  refuseUnknownOptions("listJobs()", filter, ["status", "name", "queue", "limit", "after"]);
  const { status, name, queue, limit = 100, after } = filter;
  if (!JOB_STATES.includes(status))
    throw invalidOption("listJobs(): status", `one of ${JOB_STATES.join(", ")}`, status);
  if (name !== undefined) checkText("listJobs(): name", name);
  if (queue !== undefined) checkText("listJobs(): queue", queue);
  checkInteger("listJobs(): limit", limit, 1, 1_000);
  return {
    status,
    name: name ?? null,
    queue: queue ?? null,
    limit,
    after: after === undefined ? null : readCursor(after, [status, queue ?? null, name ?? null]),
  };
}

/** Writes a place as an app hands it on: in a link, say. */
export const writeCursor = (
  { status, queue, name }: JobsRequest,
  { id, at, queue: of, priority }: JobPlace,
): string => JSON.stringify([[status, queue, name], id, at, of, priority]);

/** The times that PostgreSQL has, in microseconds since 1970: from 4714 BC to 294276. */
const [EARLIEST_US, LATEST_US] = [-210_866_803_200_000_000n, 9_224_318_015_999_999_999n];

/** It may have come from anywhere: nothing but what {@link writeCursor} can have written reaches SQL. */
function readCursor(cursor: string, of: readonly unknown[]): JobPlace {
  checkText("listJobs(): after", cursor, MAX_CURSOR_BYTES);
  try {
    const [filter, id, at, queue, priority] = JSON.parse(cursor) as unknown[];
    if (JSON.stringify(filter) !== JSON.stringify(of)) throw new TypeError("another filter");
    checkInteger("id", id, 0, Number.MAX_SAFE_INTEGER);
    checkText("queue", queue, MAX_CURSOR_BYTES, 0);
    checkInteger("priority", priority, 0, 9);
    if (!isTime(at)) throw new TypeError("no time");
    return { id, at, queue, priority } as JobPlace;
  } catch (cause) {
    throw new QueueError(
      "INVALID_OPTION",
      "listJobs(): after must be the `next` of an earlier page with the same status, queue and name.",
      { cause },
    );
  }
}

function isTime(at: unknown): boolean {
  if (typeof at !== "string" || !/^-?(\d{1,19}|infinity)$/.test(at)) return false;
  return at.endsWith("infinity") || (BigInt(at) >= EARLIEST_US && BigInt(at) <= LATEST_US);
}
