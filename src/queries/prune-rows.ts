import type { JobOutcome } from "../schema/job-states.js";
import type { TableNames } from "../schema/table-names.js";
import type { Executor, Value } from "./executor.js";
import { integerList } from "./list-literals.js";
import { template } from "./template.js";

/** A row that has outlived its retention, and its place in the order of age. */
export interface OldRow {
  readonly id: number;
  /** Microseconds since 1970 on the server's clock. */
  readonly atUs: number;
}

/** One kind of rows that are deleted by age. */
export interface OldRows {
  /** The oldest rows behind a place; null: behind none. Locks nothing. */
  find(executor: Executor, after: OldRow | null, limit: number): Promise<readonly OldRow[]>;
  /**
   * Deletes those of the rows that are still old and that nobody has locked.
   *
   * @returns How many they were.
   */
  remove(executor: Executor, ids: readonly number[]): Promise<number>;
}

interface Kind {
  readonly name: string;
  readonly table: string;
  readonly at: string;
  readonly isOld: string;
}

/** Deletes of thousands of rows leave as many dead index entries: each search begins where the last one ended. */
const findText = ({ table, at, isOld }: Kind): string => `
  select id, round(date_part('epoch', greatest(${at}, 'epoch')) * 1000000)::bigint as at_us
  from ${table}
  where ${isOld}
    and (${at}, id) > (coalesce('epoch'::timestamptz + $after_us::bigint * interval '1 microsecond', '-infinity'), $after_id::bigint)
  order by ${at}, id limit $limit::int`;

const removeText = ({ table, isOld }: Kind): string => `
  delete from ${table} where id = any(array(
    select row.id from unnest($ids::text::bigint[]) as old(id)
    -- Lateral, so that rows are found by their ids whatever the statistics say.
    cross join lateral (
      select id from ${table}
      -- Again: an operator may have requeued the job meanwhile.
      where id = old.id and ${isOld}
      for update skip locked
    ) as row
  ))
  returning id`;

function oldRows(kind: Kind, tables: TableNames, values: Readonly<Record<string, Value>>): OldRows {
  const find = template(`find_old_${kind.name}`, findText(kind), tables);
  const remove = template(`prune_${kind.name}`, removeText(kind), tables);
  return {
    async find(executor, after, limit) {
      const rows = await executor.run(
        find.bind({ ...values, after_us: after?.atUs ?? null, after_id: after?.id ?? 0, limit }),
      );
      return rows.map((row) => ({ id: Number(row["id"]), atUs: Number(row["at_us"]) }));
    },
    async remove(executor, ids) {
      const rows = await executor.run(remove.bind({ ...values, ids: integerList(ids) }));
      return rows.length;
    },
  };
}

/** Jobs that ended in one way, longer ago than `olderThanMs`. */
export const oldJobs = (tables: TableNames, outcome: JobOutcome, olderThanMs: number): OldRows =>
  oldRows(
    {
      name: "jobs",
      table: "{jobs}",
      at: "finished_at",
      isOld: `outcome = $outcome::text and finished_at <= statement_timestamp() - $older_than_ms::float8 * interval '1 millisecond'`,
    },
    tables,
    { outcome, older_than_ms: olderThanMs },
  );

/** Processed keys whose time has run out: whoever looks for one takes it for absent already. */
export const oldProcessedKeys = (tables: TableNames): OldRows =>
  oldRows(
    {
      name: "processed_keys",
      table: "{processedKeys}",
      at: "expires_at",
      isOld: "expires_at <= statement_timestamp()",
    },
    tables,
    {},
  );
