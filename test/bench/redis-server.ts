import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { processCpuMs } from "./processor-time.js";
import type { Store } from "./store.js";

/** A Redis server of the run's own. */
export interface RedisServer extends Store {
  readonly version: string;
  readonly settings: Readonly<Record<string, string>>;
  dispose(): Promise<void>;
}

/** As durable as the PostgreSQL beside it: an answer means that the change is on disk. */
const DURABLE = {
  appendonly: "yes",
  appendfsync: "always",
  // A rewrite in the midst of a drain would be measured with it.
  "auto-aof-rewrite-percentage": "0",
  save: "",
  "maxmemory-policy": "noeviction",
};

/** Starts it where the machine has one; undefined where it has not. */
export async function startRedisServer(isDurable: boolean): Promise<RedisServer | undefined> {
  const found = spawnSync("redis-server", ["--version"], { encoding: "utf8" });
  const version = /v=([\d.]+)/.exec(found.stdout ?? "")?.[1];
  if (found.status !== 0 || version === undefined) return undefined;
  const settings = { ...DURABLE, ...(isDurable ? {} : { appendfsync: "no" }) };
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "drizzle-queue-redis-"));
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  const own = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder];
  const server = spawn("redis-server", [...own, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const kill = (): void => void server.kill("SIGKILL");
  process.once("exit", kill);
  await untilReady(server);
  const ask = (...words: string[]): string =>
    spawnSync("redis-cli", ["-p", String(port), ...words], { encoding: "utf8" }).stdout;
  const empty = async (): Promise<void> => void ask("flushall");
  return {
    version,
    settings,
    // One keyspace, emptied for each use.
    urlOf: () => `redis://127.0.0.1:${port}/0`,
    create: empty,
    drop: empty,
    async cost() {
      const bytes = /aof_current_size:(\d+)/.exec(ask("info", "persistence"))?.[1] ?? "0";
      return { cpuMs: processCpuMs(server.pid ?? 0), walBytes: Number(bytes) };
    },
    async dispose() {
      const exited = once(server, "exit");
      kill();
      await exited;
      process.off("exit", kill);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function untilReady(server: ChildProcess): Promise<void> {
  let log = "";
  for await (const text of server.stdout ?? []) {
    log += String(text);
    if (log.includes("Ready to accept connections")) break;
  }
  if (!log.includes("Ready")) throw new Error(`redis-server did not start:\n${log}`);
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  return port;
}
