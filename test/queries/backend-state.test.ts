import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { backendState } from "../../src/queries/backend-state.js";
import { drizzleExecutor } from "../../src/queries/executor.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { waitUntil } from "../support/wait-until.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database.drop());

/** node-postgres' way to the bytes. */
interface RawClient {
  readonly connection: { readonly stream: { write(bytes: Buffer): void } };
}

/** A message of the protocol that asks to prepare `select 1`; nothing is done with it before a Sync. */
function parseMessage(): Buffer {
  const body = Buffer.from("\0select 1\0\0\0", "latin1");
  const head = Buffer.alloc(5);
  head.write("P", "latin1");
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

/** A COPY from a client that sends nothing. */
const silentCopy = {
  submit: (wire: { query(text: string): void }) => wire.query("copy notes from stdin"),
  handleCopyInResponse: () => undefined,
  handleError: () => undefined,
  handleReadyForQuery: () => undefined,
};

const sessions: Readonly<
  Record<string, { readonly doing: string; act(client: pg.Client): unknown }>
> = {
  "does nothing": { doing: "idle", act: () => undefined },
  "is at work on a statement": {
    doing: "working",
    act: (client) => client.query("select pg_sleep(60)").catch(() => undefined),
  },
  "is in a transaction": { doing: "working", act: (client) => client.query("begin") },
  "waits for the rest of a statement": {
    doing: "receiving",
    act: (client) => (client as unknown as RawClient).connection.stream.write(parseMessage()),
  },
  "waits for a COPY's rows": {
    doing: "working",
    act: (client) => client.query(silentCopy as unknown as pg.Submittable),
  },
  "was ended": {
    doing: "gone",
    act: (client) => client.query("select pg_terminate_backend(pg_backend_pid())").catch(() => 0),
  },
};

test.each(Object.entries(sessions))("of a session that %s", async (_, { doing, act }) => {
  await database.pool.query("create table if not exists notes (n int)");
  const client = new pg.Client({ connectionString: database.url });
  client.on("error", () => undefined);
  await client.connect();
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  const pid = rows[0]?.pid ?? 0;
  void act(client);
  const executor = drizzleExecutor(drizzle(database.pool));
  let state = await backendState(executor, pid);
  await waitUntil("it is so for a while", async () => {
    state = await backendState(executor, pid);
    return state.doing === doing && (state.forMs > 20 || doing === "gone");
  });
  expect(state.doing).toBe(doing);
  expect(state.forMs).toBeLessThan(10_000);
  await database.pool.query("select pg_terminate_backend($1)", [pid]);
  await client.end().catch(() => undefined);
});
