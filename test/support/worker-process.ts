import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** What a child process tells its test: one JSON object per line of its standard output. */
export interface ProcessMessage {
  readonly type: string;
  readonly [detail: string]: unknown;
}

/** How a child process ended. */
export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** What a child process is started with. */
export interface WorkerProcessOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Another Node than the one that runs the tests. */
  readonly node?: string;
}

/** A real operating-system process that a test can kill, stop and continue. */
export interface WorkerProcess {
  readonly pid: number;
  /** Every message so far. */
  readonly messages: readonly ProcessMessage[];
  /** The next message of this type that no earlier `waitFor` has answered. */
  waitFor(
    type: string,
    predicate?: (message: ProcessMessage) => boolean,
    timeoutMs?: number,
  ): Promise<ProcessMessage>;
  kill(signal: NodeJS.Signals): void;
  /** Resolves once the process has ended and all its messages are read. */
  readonly exit: Promise<ProcessExit>;
  /** What it wrote to its standard error. */
  stderr(): string;
}

const projectFolder = fileURLToPath(new URL("../..", import.meta.url));

/** In a child process: tells the test something. Synchronous, so that a kill -9 right after does not swallow it. */
export function report(message: ProcessMessage): void {
  writeSync(1, `${JSON.stringify(message)}\n`);
}

// A test that fails, or a run that is broken off, must not leave its processes behind:
// this side of the pipe ends when whoever started us is gone.
if (process.env["ENDS_WITH_PARENT"] !== undefined) {
  process.stdin.on("end", () => process.exit(1)).resume();
  process.stdin.unref();
}

/**
 * Starts a TypeScript file as a process of its own.
 *
 * @param script A path, or a URL such as `new URL("./worker.ts", import.meta.url)`.
 */
export function spawnWorkerProcess(
  script: string | URL,
  options: WorkerProcessOptions = {},
): WorkerProcess {
  const path = typeof script === "string" ? script : fileURLToPath(script);
  // `--import tsx` and not the tsx command: that one is a parent of its own, and a kill -9 would end it alone.
  const child = spawn(
    options.node ?? process.execPath,
    ["--import", "tsx", path, ...(options.args ?? [])],
    {
      cwd: projectFolder,
      env: { ...process.env, ...options.env, ENDS_WITH_PARENT: "1" },
      stdio: ["pipe", "pipe", "pipe"],
    },
  );
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const inbox = createInbox(path, () => stderr);
  createInterface({ input: child.stdout }).on("line", (line) => inbox.receive(line));
  const exit = exitOf(child, inbox.close);
  const endWithTests = () => child.kill("SIGKILL");
  process.once("exit", endWithTests);
  void exit.then(() => process.off("exit", endWithTests));
  return {
    pid: child.pid ?? -1,
    messages: inbox.messages,
    waitFor: inbox.waitFor,
    kill: (signal) => void child.kill(signal),
    exit,
    stderr: () => stderr,
  };
}

async function exitOf(
  child: ChildProcess,
  whenClosed: (how: string) => void,
): Promise<ProcessExit> {
  const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  whenClosed(signal === null ? `exit code ${code}` : `signal ${signal}`);
  return { code, signal };
}

interface Waiter {
  readonly matches: (message: ProcessMessage) => boolean;
  readonly resolve: (message: ProcessMessage) => void;
  readonly reject: (error: Error) => void;
}

function createInbox(name: string, stderr: () => string) {
  const messages: ProcessMessage[] = [];
  const answered = new Set<ProcessMessage>();
  const waiters = new Set<Waiter>();
  let ended: string | undefined;
  const failure = (what: string) => new Error(`${name}: ${what}. It wrote:\n${stderr()}`);

  return {
    messages,
    receive(line: string) {
      const message = parseMessage(line);
      messages.push(message);
      for (const waiter of waiters) {
        if (!waiter.matches(message)) continue;
        answered.add(message);
        waiters.delete(waiter);
        waiter.resolve(message);
        return;
      }
    },
    close(how: string) {
      ended = how;
      for (const waiter of waiters)
        waiter.reject(failure(`ended (${how}) while a message was waited for`));
      waiters.clear();
    },
    waitFor(
      type: string,
      predicate: Waiter["matches"] = () => true,
      timeoutMs = 30_000,
    ): Promise<ProcessMessage> {
      const matches: Waiter["matches"] = (message) => message.type === type && predicate(message);
      const early = messages.find((message) => !answered.has(message) && matches(message));
      if (early !== undefined) {
        answered.add(early);
        return Promise.resolve(early);
      }
      if (ended !== undefined)
        return Promise.reject(failure(`ended (${ended}) without the message ${type}`));
      return waitForLater(waiters, matches, timeoutMs, () =>
        failure(`no message ${type} in ${timeoutMs} ms`),
      );
    },
  };
}

function waitForLater(
  waiters: Set<Waiter>,
  matches: Waiter["matches"],
  timeoutMs: number,
  timedOut: () => Error,
): Promise<ProcessMessage> {
  return new Promise((resolve, reject) => {
    const settled = () => clearTimeout(timer);
    const waiter: Waiter = {
      matches,
      resolve: (message) => (settled(), resolve(message)),
      reject: (error) => (settled(), reject(error)),
    };
    const timer = setTimeout(() => {
      waiters.delete(waiter);
      reject(timedOut());
    }, timeoutMs);
    waiters.add(waiter);
  });
}

/** Lines that are not messages (a warning of some library) are kept as such. */
function parseMessage(line: string): ProcessMessage {
  try {
    const message: unknown = JSON.parse(line);
    if (typeof message === "object" && message !== null && "type" in message)
      return message as ProcessMessage;
  } catch {
    return { type: "output", line };
  }
  return { type: "output", line };
}
