import type { Pool } from "pg";

/** Every table with its schema, but for drizzle-kit's own. */
export async function tableNamesIn(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select schemaname || '.' || tablename as name from pg_tables
      where schemaname not in ('pg_catalog', 'information_schema', 'drizzle') order by name`,
  );
  return rows.map(({ name }) => name);
}

/** Every table that has storage parameters, with its TOAST table's. */
export async function storageParameters(pool: Pool): Promise<unknown[]> {
  const { rows } = await pool.query<{ name: string; options: string[]; toast: string[] | null }>(
    `select owner.oid::regclass::text as name, owner.reloptions as options, toast.reloptions as toast
       from pg_class owner left join pg_class toast on toast.oid = owner.reltoastrelid
      where owner.relkind = 'r' and owner.relnamespace <> 'pg_catalog'::regnamespace
        and (owner.reloptions is not null or toast.reloptions is not null)
      order by name`,
  );
  return rows;
}

/** A column that an index reads, as key, predicate, expression or payload. */
export interface IndexedColumn {
  readonly index: string;
  readonly column: string;
}

/** Every column that an index of the table depends on; the catalog records predicates' columns too. */
export async function indexedColumns(pool: Pool, table: string): Promise<IndexedColumn[]> {
  const { rows } = await pool.query<IndexedColumn>(
    `select distinct index.indexrelid::regclass::text as index, attribute.attname::text as column
       from pg_index index
       join pg_depend dependency on dependency.classid = 'pg_class'::regclass
        and dependency.objid = index.indexrelid and dependency.refobjid = index.indrelid
       join pg_attribute attribute on attribute.attrelid = index.indrelid
        and attribute.attnum = dependency.refobjsubid
      where index.indrelid = $1::regclass
      union
     select index.indexrelid::regclass::text, attribute.attname::text
       from pg_index index
       join pg_attribute attribute on attribute.attrelid = index.indrelid
        and attribute.attnum = any(index.indkey)
      where index.indrelid = $1::regclass
      order by 1, 2`,
    [table],
  );
  return rows;
}

/** The columns of a table, in the order in which a row stores them. */
export async function columnNames(pool: Pool, table: string): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select attname::text as name from pg_attribute
      where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`,
    [table],
  );
  return rows.map(({ name }) => name);
}
