import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import pg from "pg";
import * as schema from "./schema.js";

/** The app's Drizzle database. */
export type Database = NodePgDatabase<typeof schema> & { readonly $client: pg.Pool };

/** Connects to the app's database; `name` is what the server shows for these connections. */
export function connect(url: string, name: string): Database {
  const pool = new pg.Pool({ connectionString: url, application_name: name });
  // A connection that is lost while idle would end the process if nobody listened.
  pool.on("error", (error) => {
    // Not of interest once it is being closed.
    if (!pool.ending) console.error(`${name} lost a connection: ${error.message}`);
  });
  return drizzle(pool, { schema });
}
