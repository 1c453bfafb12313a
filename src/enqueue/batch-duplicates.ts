import type { NewJob } from "../queries/enqueue-parts.js";
import { isObject } from "../registry/option-checks.js";

/** Which jobs of a batch repeat an earlier one. */
export interface BatchDuplicates {
  /** The jobs of which no two have the same name and key, in order. */
  readonly unique: readonly NewJob[];
  /** For each job of the batch, the place in `unique` of the first that has its name and key. */
  readonly placeOf: readonly number[];
  /** The indexes of jobs that repeat a key with another input. */
  readonly conflicts: readonly number[];
}

/** Finds the jobs of a batch that share a name and an idempotency key. */
export function findDuplicates(jobs: readonly NewJob[]): BatchDuplicates {
  const unique: NewJob[] = [];
  const conflicts: number[] = [];
  const places = new Map<string, number>();
  const placeOf = jobs.map((job, index) => {
    if (job.idempotencyKey === null) return unique.push(job) - 1;
    // A name holds no NUL, so this keeps name and key apart.
    const identity = `${job.name}\0${job.idempotencyKey}`;
    const place = places.get(identity) ?? unique.length;
    const first = unique[place];
    if (first === undefined) {
      places.set(identity, place);
      unique.push(job);
    } else if (!sameInput(first, job)) conflicts.push(index);
    return place;
  });
  return { unique, placeOf, conflicts };
}

/** The database compares the same way: key order does not count. */
function sameInput(a: NewJob, b: NewJob): boolean {
  const [left, right] = [a.input ?? a.payload, b.input ?? b.payload];
  return left === right || canonicalText(left) === canonicalText(right);
}

const canonicalText = (json: string): string =>
  JSON.stringify(JSON.parse(json), (_, value: unknown) =>
    isObject(value) && !Array.isArray(value) ? sorted(value) : value,
  );

const sorted = (value: object): object =>
  Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
