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
  // An idle connection that is lost is replaced; unheard, its error would end the process.
  pool.on("error", () => undefined);
  database.interrupted.addEventListener("abort", () => void pool.end());
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
