import type { Row, Statement } from "../../queries/executor.js";

/** How a worker speaks to the database on connections of its own. */
export interface Driver {
  readonly kind: "node-postgres" | "postgres.js" | "pglite";
  /** Whether its connections are the worker's alone; PGlite has one for everybody. */
  readonly hasOwnConnections: boolean;
  connect(options: ConnectOptions): Promise<DriverConnection>;
}

/** What a new connection is to be. */
export interface ConnectOptions {
  /** Shown in `pg_stat_activity`. */
  readonly applicationName: string;
  /** How long connecting may take, in milliseconds. */
  readonly timeoutMs: number;
  /** Called once when the connection ends without `end` or `destroy`. */
  readonly onLost: (error: Error) => void;
}

/** One connection. */
export interface DriverConnection {
  /** Runs a statement; `isNamed` keeps its plan on this connection. */
  query(statement: Statement, isNamed: boolean): Promise<readonly Row[]>;
  /** Runs SQL without parameters, several statements at once. */
  script(sql: string): Promise<void>;
  listen(channel: string, onNotification: (payload: string) => void): Promise<void>;
  /** How many bytes have left and arrived so far, where the driver knows. */
  readonly transferredBytes?: () => number;
  /** Ends the connection in good order. */
  end(): Promise<void>;
  /** Drops the connection at once, without a word to the server. */
  destroy(): void;
}
