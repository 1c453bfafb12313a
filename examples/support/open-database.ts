import { randomBytes } from "node:crypto";
import { constants } from "node:os";
import process from "node:process";
import pg from "pg";
import { startPostgresServer } from "./postgres-server.js";

/** An empty database for one run of a program. */
export interface ThrowAwayDatabase {
  readonly url: string;
  /** Which database this is, for the reader of the program's output. */
  readonly description: string;
  /** Aborts on Ctrl-C, before the database is removed: the time to let go of it. */
  readonly interrupted: AbortSignal;
  /** Deletes it, and its server where that was started for it; a second call waits for the first. */
  remove(): Promise<void>;
}

/**
 * Gives a program an empty database: on the server of DATABASE_URL when that is
 * set, else on a server of its own. It is removed on Ctrl-C too.
 *
 * @throws When the server of DATABASE_URL is out of reach or its user may not create databases.
 */
export async function openDatabase(): Promise<ThrowAwayDatabase> {
  const given = process.env["DATABASE_URL"];
  const database = given ? await createDatabase(given) : await startServer();
  let removed: Promise<void> | undefined;
  const remove = () => {
    removed ??= database.remove();
    return removed;
  };
  const interrupt = new AbortController();
  const stopListening = removeOnInterrupt(interrupt, remove);
  return {
    ...database,
    interrupted: interrupt.signal,
    remove: () => remove().finally(stopListening),
  };
}

type OpenedDatabase = Omit<ThrowAwayDatabase, "interrupted">;

async function startServer(): Promise<OpenedDatabase> {
  const server = await startPostgresServer();
  return {
    url: server.url,
    description: `PostgreSQL ${server.version}, a throw-away server of this run (DATABASE_URL is not set)`,
    remove: () => server.dispose(),
  };
}

async function createDatabase(serverUrl: string): Promise<OpenedDatabase> {
  const name = `drizzle_queue_example_${randomBytes(4).toString("hex")}`;
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const version = await onServer(serverUrl, async (client) => {
    await client.query(`create database ${name}`);
    const { rows } = await client.query<{ server_version: string }>("show server_version");
    return rows[0]?.server_version.split(" ")[0] ?? "";
  });
  return {
    url: url.href,
    description: `PostgreSQL ${version} at ${url.host} (DATABASE_URL), database ${name}, dropped at the end`,
    remove: () =>
      onServer(serverUrl, async (client) => {
        await client.query(`drop database if exists ${name} with (force)`);
      }),
  };
}

async function onServer<T>(url: string, act: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await act(client);
  } finally {
    await client.end();
  }
}

/** What a terminal or an operator ends a program with. */
const endingSignals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

function removeOnInterrupt(interrupt: AbortController, remove: () => Promise<void>): () => void {
  const onSignal = (signal: NodeJS.Signals): void => {
    console.log("\nInterrupted: removing the database …");
    // What the program was doing ends in errors now, which tell nobody anything.
    process.on("uncaughtException", () => undefined);
    interrupt.abort();
    void remove()
      .catch((error: unknown) => console.error("The database could not be removed:", error))
      .finally(() => process.exit(128 + constants.signals[signal]));
  };
  for (const signal of endingSignals) process.once(signal, onSignal);
  return () => {
    for (const signal of endingSignals) process.off(signal, onSignal);
  };
}
