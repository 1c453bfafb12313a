import type { TableNames } from "../schema/table-names.js";
import type { Executor } from "./executor.js";
import { integerList } from "./list-literals.js";
import { template } from "./template.js";

/** Jobs that an operator wants changed. */
export interface ChangeRequest {
  readonly ids: readonly number[];
  /** Whether the executor is a transaction of the caller's. */
  readonly isInTransaction: boolean;
  /**
   * The number of that transaction, as an earlier statement gave it. A driver may send what comes later on a
   * connection that has gone over to others: in any other transaction nothing is changed. Null: the first statement.
   */
  readonly transaction: string | null;
}

/** What became of them. */
export interface ChangeAnswer<A> {
  /** None where the transaction was over. */
  readonly answers: ReadonlyMap<number, A | "busy">;
  readonly transaction: string | null;
}

/** Changes jobs, and answers for each. */
export type JobChange<A> = (executor: Executor, request: ChangeRequest) => Promise<ChangeAnswer<A>>;

/** The jobs of `ids` that fit, locked without waiting; what could not be locked has no `job_id`. */
export const lockedItems = (fits: string): string => `
  item as materialized (
    select given.id, job.id as job_id
    from unnest($ids::text::bigint[]) as given(id)
    left join lateral (
      select id from {jobs} where id = given.id and ${fits}
      -- A worker's statement that is at work on the row is not waited for.
      for no key update skip locked
    ) as job on true
    where $transaction::text is null or pg_current_xact_id_if_assigned()::text = $transaction::text
  )`;

/** For the select list: the number that later statements are to be of. */
export const ownTransaction = `case when $in_transaction::boolean then pg_current_xact_id()::text end as transaction`;

/** Binds a text that has the columns id, answer and transaction. */
export function jobChange<A extends string>(
  name: string,
  text: string,
  tables: TableNames,
): JobChange<A> {
  const prepared = template(name, text, tables);
  return async (executor, { ids, isInTransaction, transaction }) => {
    const rows = await executor.run(
      prepared.bind({ ids: integerList(ids), in_transaction: isInTransaction, transaction }),
    );
    return {
      answers: new Map(rows.map((row) => [Number(row["id"]), row["answer"] as A | "busy"])),
      transaction: (rows[0]?.["transaction"] as string | null | undefined) ?? transaction,
    };
  };
}
