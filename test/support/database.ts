import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import pg from "pg";
import { inject } from "vitest";
import { waitUntil } from "./wait-until.js";

/** A database that belongs to one test file. */
export interface TestDatabase {
  readonly url: string;
  readonly name: string;
  readonly pool: pg.Pool;
  /**
   * Ends the pool and deletes the database.
   *
   * @throws When somebody is still connected: a worker left running, a transaction left open.
   */
  drop(): Promise<void>;
}

const migrationsFolder = fileURLToPath(new URL("../../drizzle", import.meta.url));

/** Serialises the making of the template among test files; any number that nobody else uses. */
const TEMPLATE_LOCK = 7_310_021;

/** A database with this project's migrations applied: a copy of a template that is made once. */
export async function createDatabase(): Promise<TestDatabase> {
  const serverUrl = inject("databaseUrl");
  const template = await ensureTemplate(serverUrl);
  return createFrom(serverUrl, template);
}

/** A database without any table. */
export async function createEmptyDatabase(): Promise<TestDatabase> {
  return createFrom(inject("databaseUrl"), "template1");
}

/** The same on a server of the test's own, such as one that it restarts. */
export async function createDatabaseOn(serverUrl: string): Promise<TestDatabase> {
  return createFrom(serverUrl, await ensureTemplate(serverUrl));
}

async function createFrom(serverUrl: string, template: string): Promise<TestDatabase> {
  const name = `dq_test_${crypto.randomUUID().replaceAll("-", "").slice(0, 16)}`;
  await onServer(serverUrl, (client) =>
    client.query(`create database ${name} template ${template}`),
  );
  const url = withDatabase(serverUrl, name);
  const pool = new pg.Pool({ connectionString: url, application_name: "test" });
  // A server that a test restarts ends idle connections; the pool replaces them on demand.
  pool.on("error", () => undefined);
  return {
    url,
    name,
    pool,
    async drop() {
      await pool.end();
      await onServer(serverUrl, async (client) => {
        const left = await sessionsLeft(client, name);
        await client.query(`drop database if exists ${name} with (force)`);
        if (left.length > 0)
          throw new Error(`The test left these connected to its database: ${left.join("; ")}`);
      });
    },
  };
}

/** Who is still connected after a moment: a server process outlives its client's goodbye by a little. */
async function sessionsLeft(client: pg.Client, database: string): Promise<string[]> {
  let left: string[] = [];
  const noneLeft = async () => {
    const { rows } = await client.query<{ session: string }>(
      `select concat_ws(' | ', application_name, state, left(query, 120)) as session
         from pg_stat_activity where datname = $1 and backend_type = 'client backend'`,
      [database],
    );
    left = rows.map((row) => row.session);
    return left.length === 0;
  };
  return waitUntil("nobody is connected", noneLeft, { timeoutMs: 3_000 }).then(
    () => [],
    () => left,
  );
}

async function ensureTemplate(serverUrl: string): Promise<string> {
  const name = `dq_template_${migrationsHash()}`;
  await onServer(serverUrl, async (client) => {
    await client.query("select pg_advisory_lock($1)", [TEMPLATE_LOCK]);
    const { rowCount } = await client.query("select from pg_database where datname = $1", [name]);
    if (rowCount === 0) await makeTemplate(client, serverUrl, name);
  });
  return name;
}

/** Made under another name and then renamed: a run that is killed half-way leaves no half template. */
async function makeTemplate(client: pg.Client, serverUrl: string, name: string): Promise<void> {
  const unfinished = `${name}_unfinished`;
  await client.query(`drop database if exists ${unfinished} with (force)`);
  await client.query(`create database ${unfinished}`);
  const pool = new pg.Pool({ connectionString: withDatabase(serverUrl, unfinished), max: 1 });
  // The sessions are ended below, maybe before the goodbye of pool.end() has arrived.
  pool.on("error", () => undefined);
  try {
    await migrate(drizzle(pool), { migrationsFolder });
  } finally {
    await pool.end();
  }
  // pool.end() does not wait for the server's side of the connection, and a rename refuses to.
  await client.query(
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1",
    [unfinished],
  );
  await client.query(`alter database ${unfinished} rename to ${name}`);
}

/** Names the template, so that a changed migration makes a new one also on a server that stays. */
function migrationsHash(): string {
  const hash = createHash("sha256");
  for (const file of readdirSync(migrationsFolder, { recursive: true, withFileTypes: true })) {
    if (file.isFile() && /\.(sql|json)$/.test(file.name)) {
      hash.update(file.name).update(readFileSync(join(file.parentPath, file.name)));
    }
  }
  return hash.digest("hex").slice(0, 12);
}

async function onServer<T>(serverUrl: string, act: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: serverUrl, application_name: "test support" });
  await client.connect();
  try {
    return await act(client);
  } finally {
    await client.end();
  }
}

function withDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}
