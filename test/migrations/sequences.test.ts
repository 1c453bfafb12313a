import { afterAll, beforeAll, expect, test } from "vitest";
import { createDatabase, type TestDatabase } from "../support/database.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database.drop());

test("every number that the tables draw has 64 bits, in its sequence and in its column", async () => {
  const { rows } = await database.pool.query(
    `select attrelid::regclass::text as table, attname::text as column, atttypid::regtype::text as type,
       seqtypid::regtype::text as sequence, seqmax::text as most
     from pg_sequence
     join pg_depend dependency on dependency.classid = 'pg_class'::regclass and dependency.objid = seqrelid
       and dependency.refclassid = 'pg_class'::regclass and dependency.deptype in ('a', 'i')
     join pg_attribute on attrelid = dependency.refobjid and attnum = dependency.refobjsubid
     where attrelid::regclass::text like 'queue\\_%' order by 1, 2`,
  );
  const of = (table: string) => ({
    table,
    column: "id",
    type: "bigint",
    sequence: "bigint",
    most: "9223372036854775807",
  });
  expect(rows).toEqual([of("queue_jobs"), of("queue_processed_keys")]);
});
