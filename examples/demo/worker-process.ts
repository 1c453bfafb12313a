import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { ThrowAwayDatabase } from "../support/open-database.js";
import type { Start, WorkerMessage } from "./worker.js";

/** A worker in an operating-system process of its own. */
export interface WorkerProcess {
  readonly name: string;
  readonly pid: number;
  /** How the jobs that it holds are marked in the database. */
  readonly workerId: string;
  /** Every start of a job that it told of. */
  readonly starts: readonly Start[];
  /** Resolves at the next start of a job. */
  nextStart(): Promise<void>;
  /** kill -9: the process ends at once and can do nothing about it. */
  kill(): Promise<void>;
  /** Lets it finish what it is at. */
  stop(): Promise<void>;
}

/**
 * Starts worker.ts and waits until it takes jobs.
 *
 * @param onLost Called when it ends without having been told to.
 */
export async function startWorker(
  name: string,
  database: ThrowAwayDatabase,
  onLost: (error: Error) => void,
): Promise<WorkerProcess> {
  const child = spawnWorker(name, database);
  const starts: Start[] = [];
  let told = false;
  const exited = once(child, "exit").then(([code]) => {
    if (!told) onLost(new Error(`${name} ended by itself with exit code ${code}.`));
  });
  const workerId = new Promise<string>((resolve, reject) => {
    void exited.then(() => reject(new Error(`${name} ended before it took jobs.`)));
    child.on("message", (message: WorkerMessage) => {
      if (message.type === "ready") resolve(message.workerId);
      else starts.push(message);
    });
  });
  const end = async (signal: NodeJS.Signals) => {
    told = true;
    child.kill(signal);
    await exited;
  };
  return {
    name,
    pid: child.pid ?? 0,
    workerId: await workerId,
    starts,
    async nextStart() {
      const before = starts.length;
      while (starts.length === before) await once(child, "message");
    },
    kill: () => end("SIGKILL"),
    stop: () => end("SIGTERM"),
  };
}

function spawnWorker(name: string, { url, interrupted }: ThrowAwayDatabase): ChildProcess {
  const script = fileURLToPath(new URL("worker.ts", import.meta.url));
  // `--import tsx` and not the tsx command: that is a parent of its own, and kill -9 would hit it alone.
  const child = spawn(process.execPath, ["--import", "tsx", script, name], {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    env: { ...process.env, DATABASE_URL: url },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    // A process group of its own: Ctrl-C reaches the demo, which then ends its workers.
    detached: true,
  });
  const endWithDemo = () => child.kill("SIGKILL");
  process.once("exit", endWithDemo);
  interrupted.addEventListener("abort", endWithDemo);
  child.once("exit", () => process.off("exit", endWithDemo));
  return child;
}
