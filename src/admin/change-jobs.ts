import type { JobChange } from "../queries/change-jobs.js";
import type { Executor, PgExecutor } from "../queries/executor.js";
import { isSerializationFailure } from "../queries/sql-errors.js";
import { isTransaction } from "../queries/transaction.js";
import type { TableNames } from "../schema/table-names.js";
import { checkId, checkIds, executorOf } from "./arguments.js";

/** What became of one job. */
export interface JobAnswer<A> {
  readonly id: number;
  readonly answer: A;
}

/** One way to change jobs: a single one, or any number. */
export interface Changes<A> {
  readonly one: (db: PgExecutor, id: number) => Promise<A>;
  /** Answers in the order of the ids. */
  readonly many: (db: PgExecutor, ids: readonly number[]) => Promise<readonly JobAnswer<A>[]>;
}

/** Makes the two functions that `who` and `whoMany` are for an app. */
export function changesOf<A>(
  who: string,
  change: JobChange<A>,
  tables: TableNames,
): Changes<A | "busy"> {
  return {
    async one(db, id) {
      checkId(`${who}(): id`, id);
      const [first] = await changeJobs(executorOf(who, db, tables), isTransaction(db), change, [
        id,
      ]);
      if (first === undefined) throw new TypeError("A statement gave no answer for its job.");
      return first.answer;
    },
    async many(db, ids) {
      checkIds(`${who}Many(): ids`, ids);
      return changeJobs(executorOf(`${who}Many`, db, tables), isTransaction(db), change, ids);
    },
  };
}

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
async function changeJobs<A>(
  executor: Executor,
  isInTransaction: boolean,
  change: JobChange<A>,
  ids: readonly number[],
): Promise<readonly JobAnswer<A | "busy">[]> {
  const answers = new Map<number, A | "busy">();
  let transaction: string | null = null;

  const round = async (left: readonly number[]): Promise<void> => {
    for (let from = 0; from < left.length; from += BATCH) {
      const batch = left.slice(from, from + BATCH);
      const request = { ids: batch, isInTransaction, transaction };
      const found = await change(executor, request).catch((error: unknown) => {
        // A caller's transaction is over with that; by itself the statement is as good the next time.
        if (isInTransaction || !isSerializationFailure(error)) throw error;
        return { answers: new Map(batch.map((id) => [id, "busy" as const])), transaction };
      });
      transaction = found.transaction;
      for (const [id, answer] of found.answers) answers.set(id, answer);
    }
  };

  let left: readonly number[] = [...new Set(ids)];
  await round(left);
  for (const pauseMs of PAUSES_MS) {
    left = left.filter((id) => answers.get(id) === "busy");
    if (left.length === 0) break;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    await round(left);
  }
  return ids.map((id) => ({ id, answer: answers.get(id) ?? "busy" }));
}
