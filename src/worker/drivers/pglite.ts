import type { Row } from "../../queries/executor.js";
import type { Driver } from "./driver.js";

/** The parts of a PGlite instance that are used. */
export interface PGliteLike {
  query(text: string, values: unknown[]): Promise<{ readonly rows: readonly Row[] }>;
  exec(sql: string): Promise<unknown>;
  listen(channel: string, onNotification: (payload: string) => void): Promise<() => Promise<void>>;
}

/** Tells a PGlite instance by its parts. */
export function isPGlite(client: unknown): client is PGliteLike {
  const candidate = client as Partial<PGliteLike> | null | undefined;
  return typeof candidate?.exec === "function" && typeof candidate.listen === "function";
}

/** Speaks through the app's own PGlite, which has a single session: none of its settings is touched. */
export function pgliteDriver(database: PGliteLike): Driver {
  return {
    kind: "pglite",
    hasOwnConnections: false,
    async connect() {
      let unlisten: (() => Promise<void>) | undefined;
      return {
        query: async ({ text, values }) => (await database.query(text, [...values])).rows,
        async script(sql) {
          await database.exec(sql);
        },
        async listen(channel, onNotification) {
          await unlisten?.();
          unlisten = await database.listen(channel, onNotification);
        },
        async end() {
          await unlisten?.();
        },
        destroy() {
          unlisten?.().catch(() => undefined);
        },
      };
    },
  };
}
