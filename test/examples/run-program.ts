import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** A program of examples/ that runs. */
export interface Program {
  readonly child: ChildProcess;
  /** What it has written so far, errors too. */
  output(): string;
  /** How it ended, once all that it wrote has been read. */
  readonly exit: Promise<{ readonly code: number | null; readonly output: string }>;
}

const projectFolder = fileURLToPath(new URL("../..", import.meta.url));

/** Starts a program of examples/, on the server of `databaseUrl` or, without one, on its own. */
export function startProgram(path: string, databaseUrl: string | undefined): Program {
  const { DATABASE_URL: _, ...env } = process.env;
  const child = spawn(process.execPath, ["--import", "tsx", `examples/${path}`], {
    cwd: projectFolder,
    env: databaseUrl === undefined ? env : { ...env, DATABASE_URL: databaseUrl },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  const exit = once(child, "close").then(([code]) => ({ code: code as number | null, output }));
  const endWithTests = () => child.kill("SIGKILL");
  process.once("exit", endWithTests);
  void exit.then(() => process.off("exit", endWithTests));
  return { child, output: () => output, exit };
}
