import type { Statement } from "../../queries/executor.js";
import { createTurns } from "../turns.js";
import type { ConnectOptions, Driver, DriverConnection } from "./driver.js";

/** A socket; a WebSocket in its place does not count. */
interface PgStream {
  readonly bytesRead?: number;
  readonly bytesWritten?: number;
  readonly writableLength?: number;
  destroy(): void;
}

/** The parts of node-postgres' Client that are used; neon-serverless and vercel have the same. */
interface PgClient {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  query(query: string | object): Promise<{ readonly rows: readonly Record<string, unknown>[] }>;
  on(event: string, listener: (argument: never) => void): unknown;
  readonly connection?: { readonly stream?: PgStream };
}

/** The parts of a Pool that are used: what its clients are made of. */
export interface PgPool {
  readonly options: { readonly password?: unknown };
  readonly Client: new (options: object) => PgClient;
}

/** Tells a Pool of node-postgres, or of a driver that is made like it, by its parts. */
export function isPgPool(client: unknown): client is PgPool {
  const pool = client as Partial<PgPool> | null | undefined;
  return typeof pool?.Client === "function" && typeof pool.options === "object";
}

/** Makes connections with the options of the app's pool, outside of that pool. */
export function nodePostgresDriver(pool: PgPool): Driver {
  return {
    kind: "node-postgres",
    hasOwnConnections: true,
    async connect(options) {
      const client = new pool.Client({
        ...pool.options,
        // A pool hides it from enumeration, so the spread above leaves it out.
        password: pool.options.password,
        application_name: options.applicationName,
        keepAlive: true,
        connectionTimeoutMillis: options.timeoutMs,
        // The app's limits are for its own statements, its parsers for its own rows.
        query_timeout: 0,
        statement_timeout: 0,
        types: undefined,
        binary: false,
      });
      const connection = wrap(client, options);
      await client.connect();
      return connection;
    },
  };
}

function wrap(client: PgClient, { onLost }: ConnectOptions): DriverConnection {
  let isOver = false;
  let onNotification = (_payload: string): void => {};
  // One statement at a time: node-postgres is about to give up its own line of waiting ones.
  const inTurn = createTurns();
  const lose = (error: Error | undefined): void => {
    if (isOver) return;
    isOver = true;
    onLost(error ?? new Error("The server ended the connection."));
  };
  // Without a listener an idle connection's error would end the process.
  client.on("error", lose);
  client.on("end", () => lose(undefined));
  client.on("notification", ({ payload }: { readonly payload?: string }) =>
    onNotification(payload ?? ""),
  );
  return {
    async query({ name, text, values }: Statement, isNamed) {
      const query = isNamed ? { name, text, values } : { text, values };
      const result = await inTurn(() => client.query(query));
      return result.rows;
    },
    async script(sql) {
      await inTurn(() => client.query(sql));
    },
    async listen(channel, listener) {
      // In the place of an earlier one: a session that lost its LISTEN would else tell everything twice.
      onNotification = listener;
      await inTurn(() => client.query(`listen "${channel}"`));
    },
    ...countOf(client),
    async end() {
      isOver = true;
      await client.end();
    },
    destroy() {
      isOver = true;
      client.connection?.stream?.destroy();
    },
  };
}

/** Read at each call: with TLS the socket is another one once it is connected. */
function countOf(client: PgClient): Pick<DriverConnection, "transferredBytes"> {
  if (client.connection?.stream?.bytesRead === undefined) return {};
  return {
    transferredBytes() {
      const {
        bytesRead = 0,
        bytesWritten = 0,
        writableLength = 0,
      } = client.connection?.stream ?? {};
      // What still waits in the process is counted as written.
      return bytesRead + bytesWritten - writableLength;
    },
  };
}
