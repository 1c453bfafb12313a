import { PGlite } from "@electric-sql/pglite";
import { drizzle as drizzleNodePostgres } from "drizzle-orm/node-postgres";
import { drizzle as drizzlePglite } from "drizzle-orm/pglite";
import { migrate as migratePglite } from "drizzle-orm/pglite/migrator";
import { drizzle as drizzlePostgresJs } from "drizzle-orm/postgres-js";
import pg from "pg";
import postgres from "postgres";
import { createDatabase } from "../support/database.js";

/** An app's Drizzle database on one of the drivers, with a pool of its own. */
export interface AppDatabase {
  // The two drivers' databases have no common class; what tests call on them is the same.
  readonly db: ReturnType<typeof drizzleNodePostgres>;
  close(): Promise<void>;
}

interface PoolOptions {
  readonly max?: number;
  readonly throughPooler?: boolean;
}

/** One of the drivers that a worker runs on in full. */
export interface DriverUnderTest {
  readonly driver: "node-postgres" | "postgres.js";
  /** Opens a pool of up to `max` connections; through a pooler, without prepared statements. */
  open(url: string, options?: PoolOptions): AppDatabase;
}

/** Every driver that the core tests run on. */
export const DRIVERS: readonly DriverUnderTest[] = [
  {
    driver: "node-postgres",
    open(url, { max = 5 } = {}) {
      const pool = new pg.Pool({ connectionString: url, max });
      pool.on("error", () => undefined);
      return { db: drizzleNodePostgres(pool), close: () => pool.end() };
    },
  },
  {
    driver: "postgres.js",
    open(url, { max = 5, throughPooler = false } = {}) {
      // Drizzle would have the app rename columns like this: the worker's own statements must not care.
      const client = postgres(url, {
        max,
        prepare: !throughPooler,
        transform: postgres.camel,
        onnotice: () => undefined,
      });
      const db = drizzlePostgresJs(client) as unknown as AppDatabase["db"];
      // Without a timeout it waits for ever for a transaction whose connection was lost.
      return { db, close: () => client.end({ timeout: 1 }) };
    },
  },
];

/** A database of its own on every driver. */
export const DATABASES = [
  ...DRIVERS.map(({ driver, open }) => ({
    driver: driver as string,
    async open(): Promise<AppDatabase> {
      const database = await createDatabase();
      const app = open(database.url);
      return { db: app.db, close: () => app.close().then(database.drop) };
    },
  })),
  {
    driver: "PGlite",
    async open(): Promise<AppDatabase> {
      const client = new PGlite();
      const db = drizzlePglite(client);
      await migratePglite(db, { migrationsFolder: "drizzle" });
      return { db: db as unknown as AppDatabase["db"], close: () => client.close() };
    },
  },
];
