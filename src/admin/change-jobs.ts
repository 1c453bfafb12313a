import type { Executor } from "../queries/executor.js";

/** A statement that changes jobs, and answers for each. */
type Change<A> = (
  executor: Executor,
  ids: readonly number[],
) => Promise<ReadonlyMap<number, A | "busy">>;

/** So many jobs are changed by one statement. */
const BATCH = 1_000;

/**
 * How long to wait before those are tried again whose rows were locked, in milliseconds:
 * a worker's statement holds a row for a few, a `commit` for its last one only.
 */
const PAUSES_MS = [5, 20, 50, 100];

/**
 * Changes jobs, and answers in the order of their ids.
 *
 * What is locked is not waited for, since a lock may last as long as somebody's
 * transaction; it is tried again a few times, and answered `busy` after that.
 */
export async function changeJobs<A>(
  executor: Executor,
  change: Change<A>,
  ids: readonly number[],
): Promise<readonly { readonly id: number; readonly answer: A | "busy" }[]> {
  const answers = new Map<number, A | "busy">();
  const all = [...new Set(ids)];
  for (let from = 0; from < all.length; from += BATCH) {
    await changeBatch(executor, change, all.slice(from, from + BATCH), answers);
  }
  return ids.map((id) => ({ id, answer: answers.get(id) ?? "busy" }));
}

async function changeBatch<A>(
  executor: Executor,
  change: Change<A>,
  ids: readonly number[],
  answers: Map<number, A | "busy">,
): Promise<void> {
  let left = ids;
  for (const pauseMs of [...PAUSES_MS, undefined]) {
    const found = await change(executor, left);
    for (const [id, answer] of found) answers.set(id, answer);
    left = left.filter((id) => answers.get(id) === "busy");
    if (left.length === 0 || pauseMs === undefined) return;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
