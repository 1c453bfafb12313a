import {
  type ConnectionRole,
  type EventError,
  eventError,
  type QueueEvent,
} from "../instrumentation/instrumentation.js";
import type { Executor, Row, Statement } from "../queries/executor.js";
import { sqlState } from "../queries/sql-errors.js";
import { terminateBackend } from "../queries/terminate-backend.js";
import { monotonicMs } from "./clock.js";
import { DeadlineError, withDeadline } from "./deadline.js";
import type { Driver, DriverConnection } from "./drivers/driver.js";
import { answerOf } from "./lost-answer.js";
import { createTurns } from "./turns.js";

/** How long connecting may take, in milliseconds. */
const CONNECT_TIMEOUT_MS = 10_000;
/** How long ending a session that gave no answer may take, in milliseconds. */
const END_TIMEOUT_MS = 1_000;

/**
 * What our statements run under, whatever the role or the database defaults to.
 *
 * They find rows by index alone: plans are made once and may be made on an empty
 * table, where a scan of the whole table looks cheap, and stays.
 */
const SETTINGS = [
  "enable_seqscan = off",
  "enable_indexscan = on",
  "enable_nestloop = on",
  "jit = off",
  "search_path = ''",
  // Only rows that others' triggers and foreign keys touch are waited for at all.
  "lock_timeout = '500ms'",
  "idle_in_transaction_session_timeout = '10s'",
  // Both change what the texts of our lists and times mean.
  "array_nulls = on",
  "extra_float_digits = 1",
];

/** The same for sessions that are ours alone. */
const SESSION = [
  ...SETTINGS,
  "default_transaction_isolation = 'read committed'",
  "default_transaction_read_only = off",
  "plan_cache_mode = force_generic_plan",
  "idle_session_timeout = 0",
];

/** PostgreSQL 17 and later have one more timeout, older ones refuse its name. */
const NO_TRANSACTION_TIMEOUT =
  "select set_config(name, '0', false) from pg_settings where name = 'transaction_timeout'";

const BACKEND: Statement = {
  name: "drizzle_queue_backend",
  text: "select pg_catalog.pg_backend_pid() as pid",
  values: [],
};

/** A connection that was made. */
interface Session {
  readonly link: DriverConnection;
  /** The server's process number of it, where the session is ours alone and somebody may ask after it. */
  readonly pid: number | undefined;
}

/** What was sent: its name, and about how many bytes. */
interface Sent {
  readonly what: string;
  readonly bytes: number;
}

/** A connection of the worker's own that comes back by itself. */
export interface Connection extends Executor {
  /** @throws when the statement errors, or has no answer after the deadline: then the connection is dropped. */
  run(statement: Statement): Promise<readonly Row[]>;
  /** Connects if need be and listens on a channel for as long as this connection lasts. */
  listen(channel: string, onNotification: (payload: string) => void): Promise<void>;
  isConnected(): boolean;
  /** Whether `listen` was called on the connection that there is now. */
  isListening(): boolean;
  /** Ends it in good order, or drops it after `timeoutMs`. */
  close(timeoutMs: number): Promise<void>;
}

export interface ConnectionOptions {
  readonly role: ConnectionRole;
  readonly driver: Driver;
  /** How long a statement may take, in milliseconds. */
  readonly deadlineMs: number;
  /** Behind a pooler in transaction mode no session is ours to fix. */
  readonly throughPooler: boolean;
  /** Another connection of the worker, if any, to ask what became of a statement without an answer. */
  readonly peer: (() => Executor) | undefined;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** What was thrown because there was no connection to send anything over. */
const thrownUnsent = new WeakSet<object>();

/** Whether the statement that errored may have been sent. */
export const mayHaveBeenSent = (error: unknown): boolean =>
  typeof error !== "object" || error === null || !thrownUnsent.has(error);

/** Creates a connection that is made at its first use, and again after each loss. */
export function createConnection(options: ConnectionOptions): Connection {
  const { role, driver, deadlineMs, throughPooler, peer, emit } = options;
  let current: Session | undefined;
  let listening: Session | undefined;
  let connecting: Promise<Session> | undefined;
  let lostAt: number | undefined;
  let isClosed = false;
  /** Behind a pooler a statement is a transaction: two at a time would share one, and roll each other back. */
  let inTurn = createTurns();

  const lose = (error: EventError): void => {
    current = undefined;
    if (isClosed || lostAt !== undefined) return;
    lostAt = monotonicMs();
    emit?.({ type: "connection.lost", role, error });
  };

  const connect = async (): Promise<Session> => {
    let made: DriverConnection | undefined;
    let pid: number | undefined;
    const fate: { lost?: Error } = {};
    try {
      const pending = driver.connect({
        applicationName: `drizzle-queue ${role}`,
        timeoutMs: CONNECT_TIMEOUT_MS,
        onLost: (error) => {
          fate.lost = error;
          lose(eventError(error));
        },
      });
      made = await withDeadline(CONNECT_TIMEOUT_MS, `connecting (${role})`, pending).catch(
        (error: unknown) => {
          // One that is made after all must not stay behind unused.
          pending.then((late) => late.destroy()).catch(() => undefined);
          throw error;
        },
      );
      if (driver.hasOwnConnections && !throughPooler) {
        await withDeadline(deadlineMs, "session settings", made.script(sessionScript(deadlineMs)));
        if (peer !== undefined) pid = await withDeadline(deadlineMs, "backend", backendOf(made));
      }
      // The server's last word may come with its answer: nothing would tell of the loss again.
      if (fate.lost !== undefined) throw fate.lost;
    } catch (error) {
      made?.destroy();
      lose(eventError(error));
      throw error;
    }
    if (isClosed) {
      made.destroy();
      throw new Error("The worker was stopped.");
    }
    current = { link: made, pid };
    inTurn = createTurns();
    if (lostAt !== undefined)
      emit?.({ type: "connection.restored", role, afterMs: Math.round(monotonicMs() - lostAt) });
    lostAt = undefined;
    return current;
  };

  const connected = async (): Promise<Session> => {
    if (current !== undefined) return current;
    if (isClosed) throw new Error("The worker was stopped.");
    connecting ??= connect().finally(() => {
      connecting = undefined;
    });
    return connecting;
  };

  /** Gives up an answer that cannot come any more, where there is somebody to ask, and the driver tells of bytes. */
  const heard = <T>({ link, pid }: Session, sent: Sent, answer: Promise<T>): Promise<T> => {
    const { transferredBytes } = link;
    return peer === undefined || pid === undefined || transferredBytes === undefined
      ? answer
      : answerOf({ ...sent, answer, pid, transferredBytes, peer: peer() });
  };

  /**
   * A statement that outlived the server's own limit hangs in its commit, as behind a standby that does
   * not answer: each new connection would leave another such session behind.
   */
  const endSession = async ({ pid }: Session, error: unknown): Promise<void> => {
    if (!(error instanceof DeadlineError) || pid === undefined || peer === undefined) return;
    const ended = terminateBackend(peer(), pid);
    await withDeadline(END_TIMEOUT_MS, "ending a session", ended).catch(() => undefined);
  };

  /** Runs `action`; one that gets no answer in time, or that of a standby, takes the connection with it. */
  const use = async <T>(sent: Sent, action: (session: Session) => Promise<T>): Promise<T> => {
    const session = await connected().catch((error: unknown) => {
      if (typeof error === "object" && error !== null) thrownUnsent.add(error);
      throw error;
    });
    const answer = withDeadline(deadlineMs, sent.what, action(session)).catch(
      async (error: unknown) => {
        const ended = endSession(session, error);
        // Claims must not leave before it; renewals have no time to lose, and do no harm when they come late.
        if (role !== "renewal") await ended;
        throw error;
      },
    );
    try {
      return await heard(session, sent, answer);
    } catch (error) {
      if (error instanceof DeadlineError || isOfStandby(error)) {
        session.link.destroy();
        if (current === session) lose(eventError(error));
      }
      throw error;
    }
  };

  return {
    run: (statement) =>
      use({ what: statement.name, bytes: bytesOf(statement) }, ({ link }) =>
        throughPooler
          ? inTurn(() => pooled(link, statement, deadlineMs))
          : link.query(statement, driver.hasOwnConnections),
      ),
    listen: (channel, onNotification) =>
      use({ what: "listen", bytes: 0 }, async (session) => {
        await session.link.listen(channel, onNotification);
        listening = session;
      }),
    isConnected: () => current !== undefined,
    isListening: () => current !== undefined && current === listening,
    async close(timeoutMs) {
      isClosed = true;
      const link = current?.link;
      current = undefined;
      if (link === undefined) return;
      await withDeadline(timeoutMs, "closing", link.end()).catch(() => link.destroy());
    },
  };
}

/** After a failover the server is a standby that refuses to write; its name may lead to another one by now. */
const isOfStandby = (error: unknown): boolean => sqlState(error) === "25006";

const sessionScript = (deadlineMs: number): string =>
  [...SESSION, `statement_timeout = ${serverMs(deadlineMs)}`]
    .map((setting) => `set ${setting};`)
    .join(" ") + NO_TRANSACTION_TIMEOUT;

/** The server gives up first: its answer tells that nothing was done, silence might mean anything. */
const serverMs = (deadlineMs: number): number => Math.ceil(deadlineMs * 0.9);

/** About how much goes over the network; the text only once. */
const bytesOf = ({ text, values }: Statement): number =>
  values.reduce<number>(
    (sum, value) => sum + (typeof value === "string" ? value.length : 8),
    text.length,
  );

/** Behind a pooler the protocol's own number is the pooler's, so the session is asked; only where bytes are counted is it of use. */
async function backendOf(link: DriverConnection): Promise<number | undefined> {
  if (link.transferredBytes === undefined) return undefined;
  const [row] = await link.query(BACKEND, false);
  return Number(row?.["pid"]);
}

/**
 * Behind a pooler each statement is a transaction of its own, so that the
 * settings go with it, and unnamed, since the next one may meet another server session.
 */
async function pooled(
  connection: DriverConnection,
  statement: Statement,
  deadlineMs: number,
): Promise<readonly Row[]> {
  const settings = [...SETTINGS, `statement_timeout = ${serverMs(deadlineMs)}`];
  await connection.script(
    `begin isolation level read committed read write; ${settings.map((setting) => `set local ${setting};`).join(" ")}`,
  );
  try {
    const rows = await connection.query(statement, false);
    await connection.script("commit");
    return rows;
  } catch (error) {
    await connection.script("rollback");
    throw error;
  }
}
