import type { Bench } from "./benchmark.js";
import { startChild } from "./child.js";
import type { Entry } from "./contender.js";

/** Makes a database with an entry's tables, and what `fill` puts into them. */
export async function prepare(
  { server }: Bench,
  entry: Entry,
  database: string,
  fill?: string,
): Promise<void> {
  await server.drop(database);
  await server.create(database);
  const options = { url: server.urlOf(database), concurrency: 2, settings: entry.settings };
  const child = await startChild(entry, options);
  await child.call("install");
  await child.kill();
  if (fill !== undefined) await server.query(database, fill);
  await server.query(database, "vacuum analyze");
}
