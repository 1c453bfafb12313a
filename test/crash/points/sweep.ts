import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import { startPostgresServer } from "../../../examples/support/postgres-server.js";
import { bundleFleet } from "../fleet/bundle.js";
import { connectDirectly } from "../fleet/server-faults.js";
import { createLedger } from "../ledger/ledger-tables.js";
import type { CrashPoint, Deed } from "./crash-point.js";
import { type PointResult, runPoint } from "./run-point.js";

/** A fault to commit: at which statement, and what. */
export interface PlannedPoint {
  readonly point: CrashPoint;
  readonly deed: Deed;
}

const migrationsFolder = fileURLToPath(new URL("../../../drizzle", import.meta.url));

/** So many runs at once: most of a run is waiting for leases. */
const AT_ONCE = 4;

/** Commits each fault in a run of its own, with a database of its own. */
export async function sweepPoints(
  planned: readonly PlannedPoint[],
  onResult: (result: PointResult) => void = () => undefined,
): Promise<PointResult[]> {
  const folder = mkdtempSync(join(tmpdir(), "drizzle-queue-sweep-"));
  const server = await startPostgresServer({ settings: { max_connections: "200" } });
  try {
    const bundle = await bundleFleet(folder);
    const createDatabase = await templateOf(server.url);
    const results: PointResult[] = [];
    const left = [...planned];
    const lane = async (): Promise<void> => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const result = await runPoint({ bundle, createDatabase }, next.point, next.deed);
        results.push(result);
        onResult(result);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, lane));
    return results;
  } finally {
    await server.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Prepares a database once, to be copied for each run. */
async function templateOf(serverUrl: string): Promise<() => Promise<string>> {
  const client = await connectDirectly(serverUrl);
  await client.query("create database template_point");
  const template = await connectDirectly(withDatabase(serverUrl, "template_point"));
  await migrate(drizzle(template), { migrationsFolder });
  await createLedger(template);
  // Something to prune that no invariant is about.
  await template.query(
    "insert into queue_processed_keys (name, idempotency_key, job_id, expires_at) values ('gone', 'gone', 0, now())",
  );
  await template.end();
  await client.end();
  let count = 0;
  // One copy at a time: PostgreSQL refuses to copy a database that is being used, by another copy too.
  let last: Promise<unknown> = Promise.resolve();
  return () => {
    const name = `point_${++count}`;
    const made = last.then(async () => {
      const session = await connectDirectly(serverUrl);
      await session.query(`create database ${name} template template_point`);
      await session.end();
      return withDatabase(serverUrl, name);
    });
    last = made.catch(() => undefined);
    return made;
  };
}

function withDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}
