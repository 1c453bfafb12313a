import type { Row } from "../../queries/executor.js";
import { withDeadline } from "../deadline.js";
import type { Driver } from "./driver.js";

/** The parts of a postgres.js instance that are used. */
export interface PostgresJs {
  readonly options: object;
  unsafe(
    text: string,
    values?: readonly unknown[],
    options?: { readonly prepare?: boolean },
  ): Promise<readonly Row[]> & {
    simple?(): Promise<unknown>;
  };
  end(options?: { readonly timeout?: number }): Promise<void>;
}

/** Tells a postgres.js instance by its parts. */
export function isPostgresJs(client: unknown): client is PostgresJs {
  return typeof client === "function" && "unsafe" in client && "options" in client;
}

/** Makes connections with the options of the app's postgres.js instance, outside of its pool. */
export function postgresJsDriver(app: PostgresJs): Driver {
  return {
    kind: "postgres.js",
    hasOwnConnections: true,
    async connect({ applicationName, timeoutMs, onLost }) {
      const { default: postgres } = (await import("postgres")) as unknown as {
        default: (options: object) => PostgresJs;
      };
      let isOver = false;
      let onNotification = (_payload: string): void => {};
      const { connection, ...options } = app.options as { readonly connection?: object };
      const sql = postgres({
        ...options,
        connection: { ...connection, application_name: applicationName },
        max: 1,
        // It would reconnect by itself, with the session's settings gone.
        idle_timeout: 0,
        max_lifetime: null,
        connect_timeout: timeoutMs / 1000,
        // The app's renaming of columns and its log are for its own statements.
        transform: { undefined: undefined, column: {}, value: {}, row: {} },
        debug: false,
        fetch_types: false,
        onnotice: () => {},
        // Not its own `listen`: that opens a connection beside this one, which nobody would prove alive.
        onnotify: (_channel: string, payload: string) => onNotification(payload),
        onclose: () => {
          if (isOver) return;
          isOver = true;
          // It would connect again by itself, to a session without our settings.
          sql.end({ timeout: 0 }).catch(() => undefined);
          onLost(new Error("The connection was closed."));
        },
      });
      try {
        await withDeadline(timeoutMs, "the first statement", sql.unsafe("select 1"));
      } catch (error) {
        isOver = true;
        // Else it would try again by itself for ever: without a pause where a proxy accepts and then hangs up.
        sql.end({ timeout: 0 }).catch(() => undefined);
        throw error;
      }
      return {
        query: (statement, isNamed) =>
          sql.unsafe(statement.text, statement.values, { prepare: isNamed }),
        async script(text) {
          await sql.unsafe(text);
        },
        async listen(channel, listener) {
          onNotification = listener;
          await sql.unsafe(`listen "${channel}"`);
        },
        async end() {
          isOver = true;
          await sql.end({ timeout: 1 });
        },
        destroy() {
          isOver = true;
          sql.end({ timeout: 0 }).catch(() => undefined);
        },
      };
    },
  };
}
