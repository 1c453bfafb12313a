import { generateDrizzleJson, generateMigration } from "drizzle-kit/api";
import { sql } from "drizzle-orm";
import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import pg from "pg";
import { openDatabase } from "./open-database.js";

/** What an example runs on. */
export interface Example<Schema extends Record<string, unknown>> extends AsyncDisposable {
  readonly db: NodePgDatabase<Schema> & { readonly $client: pg.Pool };
}

/**
 * Opens a throw-away database that has the tables of `schema`.
 *
 * An app would have them from its migrations, as examples/demo does; here they
 * are made on the spot, so that an example fits in one file.
 */
export async function openExample<Schema extends Record<string, unknown>>(
  schema: Schema,
): Promise<Example<Schema>> {
  const database = await openDatabase();
  console.log(`Database: ${database.description}`);
  const pool = new pg.Pool({ connectionString: database.url });
  // A connection that is lost while idle would end the process if nobody listened.
  pool.on("error", (error) => {
    // Not of interest once it is being closed.
    if (!pool.ending) console.error("Lost a connection:", error.message);
  });
  const db = drizzle(pool, { schema });
  const statements = await generateMigration(generateDrizzleJson({}), generateDrizzleJson(schema));
  for (const statement of statements) await db.execute(sql.raw(statement));
  return {
    db,
    async [Symbol.asyncDispose]() {
      await pool.end();
      await database.remove();
    },
  };
}
