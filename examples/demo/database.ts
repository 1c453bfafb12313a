import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import pg from "pg";
import * as schema from "./schema.js";

/** The app's Drizzle database. */
export type Database = NodePgDatabase<typeof schema> & { readonly $client: pg.Pool };

/** Connects to the app's database; `name` is what the server shows for these connections. */
export function connect(url: string, name: string): Database {
  const pool = new pg.Pool({ connectionString: url, application_name: name });
  // An idle connection that is lost is replaced; unheard, its error would end the process.
  pool.on("error", () => undefined);
  return drizzle(pool, { schema });
}
