import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chownSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import pg from "pg";
import { waitUntil } from "../support/wait-until.js";

/** A PgBouncer in transaction mode in front of a test's database. */
export interface PgBouncer {
  readonly url: string;
  stop(): Promise<void>;
}

const PROGRAM = "/usr/sbin/pgbouncer";

/** Debian's package puts it there: `apt-get install pgbouncer`. */
export const hasPgBouncer = (): boolean => spawnSync(PROGRAM, ["--version"]).status === 0;

/** Starts one with `poolSize` server connections for all its clients. */
export async function startPgBouncer(databaseUrl: string, poolSize: number): Promise<PgBouncer> {
  const target = new URL(databaseUrl);
  const folder = mkdtempSync(join(tmpdir(), "drizzle-queue-pgbouncer-"));
  const port = await freePort();
  const user = unprivileged();
  const files = { config: join(folder, "pgbouncer.ini"), users: join(folder, "users.txt") };
  writeFileSync(files.users, `"${target.username}" "${decodeURIComponent(target.password)}"\n`);
  writeFileSync(
    files.config,
    [
      "[databases]",
      `* = host=${target.hostname} port=${target.port}`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${port}`,
      "unix_socket_dir =",
      "auth_type = plain",
      `auth_file = ${files.users}`,
      "pool_mode = transaction",
      `default_pool_size = ${poolSize}`,
      "max_client_conn = 200",
      "server_round_robin = 1",
    ].join("\n"),
  );
  if (user !== undefined)
    for (const path of [folder, ...Object.values(files)]) chownSync(path, user.uid, user.gid);
  const bouncer = spawn(PROGRAM, [files.config], { stdio: ["ignore", "ignore", "pipe"], ...user });
  const log = collect(bouncer);
  const url = new URL(databaseUrl);
  url.port = String(port);
  await waitUntil(`PgBouncer answers (${log()})`, () => answers(url.href));
  return {
    url: url.href,
    async stop() {
      const exited = once(bouncer, "exit");
      bouncer.kill("SIGTERM");
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** It refuses to run as root. */
function unprivileged(): { uid: number; gid: number } | undefined {
  return process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined;
}

function collect(child: ChildProcess): () => string {
  let text = "";
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  return () => text;
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.end();
  return true;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}
