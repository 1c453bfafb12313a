import { backendState } from "../queries/backend-state.js";
import type { Executor } from "../queries/executor.js";
import { monotonicMs } from "./clock.js";
import { DeadlineError } from "./deadline.js";
import { watchSilence } from "./silence-watch.js";

/** How long an answer may take before another connection is asked after it, in milliseconds. */
const DOUBT_MS = 2_000;
/** How long a session must have done nothing: its statement may still be on the way to it. */
const IDLE_MS = 1_000;

/** A statement that was sent. */
export interface SentStatement<T> {
  readonly what: string;
  readonly answer: Promise<T>;
  /** The server's process number of the session that it was sent to. */
  readonly pid: number;
  /** The connection to ask over. A question without an answer is asked after in its turn, two seconds later. */
  readonly peer: Executor;
}

/**
 * Waits for an answer as long as there may be one to come: not where the server has
 * ended the session, has answered already, or has never heard the statement.
 *
 * @throws {DeadlineError} where none will come: after three seconds, where the deadline is longer.
 */
export async function answerOf<T>({ what, answer, pid, peer }: SentStatement<T>): Promise<T> {
  const sentMs = monotonicMs();
  let unwatch = (): void => {};
  const lost = new Promise<never>((_, reject) => {
    unwatch = watchSilence({
      everyMs: DOUBT_MS,
      isOver: () => hasNoAnswer(peer, pid),
      giveUp() {
        const ms = Math.round(monotonicMs() - sentMs);
        reject(new DeadlineError(`No answer after ${ms} ms, and the server has none: ${what}.`));
      },
    });
  });
  try {
    return await Promise.race([answer, lost]);
  } finally {
    unwatch();
  }
}

async function hasNoAnswer(peer: Executor, pid: number): Promise<boolean> {
  const { doing, forMs } = await backendState(peer, pid);
  return doing === "gone" || (doing !== "working" && forMs > IDLE_MS);
}
