import { QueueError } from "../../errors.js";
import type { Driver } from "./driver.js";
import { isPgPool, nodePostgresDriver } from "./node-postgres.js";
import { isPGlite, pgliteDriver } from "./pglite.js";
import { isPostgresJs, postgresJsDriver } from "./postgres-js.js";

/**
 * Picks the driver by what a Drizzle database was made from.
 *
 * @throws {QueueError} `UNSUPPORTED_DRIVER` when it is none of those that workers run on.
 */
export function driverOf(who: string, db: object): Driver {
  const client = (db as { readonly $client?: unknown }).$client;
  if (isPostgresJs(client)) return postgresJsDriver(client);
  if (isPGlite(client)) return pgliteDriver(client);
  if (isPgPool(client)) return nodePostgresDriver(client);
  throw new QueueError(
    "UNSUPPORTED_DRIVER",
    `${who}: db must be a Drizzle database on a node-postgres Pool, a postgres.js instance or PGlite; this one is on ${describe(client)}.`,
  );
}

function describe(client: unknown): string {
  if (client === undefined || client === null) return "nothing: was its connection string empty?";
  const name = (client as { readonly constructor?: { readonly name?: string } }).constructor?.name;
  if (name === "Client") return "a single Client: give drizzle() a Pool";
  return name === "Function"
    ? "an HTTP driver, which has no sessions"
    : `a ${name ?? "client"} that it does not know`;
}
