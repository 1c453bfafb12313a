import { backendState } from "../queries/backend-state.js";
import type { Executor } from "../queries/executor.js";
import { terminateBackend } from "../queries/terminate-backend.js";
import { monotonicMs } from "./clock.js";
import { DeadlineError } from "./deadline.js";
import { watchSilence } from "./silence-watch.js";

/** How long an answer may take before another connection is asked after it, in milliseconds. */
const DOUBT_MS = 2_000;
/** How long a session must have done nothing: its statement may still be on the way to it. */
const IDLE_MS = 1_000;
/** The server takes a session that receives a statement, or whose answer travels, for idle: a network this slow, in bytes per millisecond, still gets enough time. */
const SLOW_BYTES_PER_MS = 100;

/** A statement that was sent. */
export interface SentStatement<T> {
  readonly what: string;
  /** How much was sent. */
  readonly bytes: number;
  readonly answer: Promise<T>;
  /** The server's process number of the session that it was sent to. */
  readonly pid: number;
  /** How many bytes have travelled over that connection, both ways. */
  readonly transferredBytes: () => number;
  /** The connection to ask over. A question without an answer is asked after in its turn, two seconds later. */
  readonly peer: Executor;
}

/**
 * Waits for an answer as long as there may be one to come: not where the server has
 * ended the session, has answered already, or has never heard the statement.
 *
 * @throws {DeadlineError} where none will come, which takes three seconds or more.
 */
export async function answerOf<T>(statement: SentStatement<T>): Promise<T> {
  const { what, bytes, answer, pid, peer } = statement;
  const sentMs = monotonicMs();
  let unwatch = (): void => {};
  const lost = new Promise<never>((_, reject) => {
    unwatch = watchSilence({
      everyMs: DOUBT_MS + bytes / SLOW_BYTES_PER_MS,
      isOver: silenceOf(statement),
      giveUp() {
        const ms = Math.round(monotonicMs() - sentMs);
        const error = `No answer after ${ms} ms, and the server has none: ${what}.`;
        terminateBackend(peer, pid)
          // If that fails, we rely on the statement being truly lost.
          .catch(() => undefined)
          .finally(() => reject(new DeadlineError(error)));
      },
    });
  });
  try {
    return await Promise.race([answer, lost]);
  } finally {
    unwatch();
  }
}

/** Tells whether neither the server works at an answer nor one travels: not a byte since the last look. */
function silenceOf({ pid, peer, transferredBytes }: SentStatement<unknown>) {
  let lastBytes: number | undefined;
  return async (): Promise<boolean> => {
    const bytes = transferredBytes();
    const isStill = lastBytes === undefined || bytes === lastBytes;
    lastBytes = bytes;
    return isStill && hasNoAnswer(peer, pid);
  };
}

async function hasNoAnswer(peer: Executor, pid: number): Promise<boolean> {
  const { doing, forMs } = await backendState(peer, pid);
  return doing === "gone" || (doing !== "working" && forMs > IDLE_MS);
}
