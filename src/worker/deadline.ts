import { after } from "./clock.js";

/** Says that no answer came in time. */
export class DeadlineError extends Error {
  override readonly name = "DeadlineError";
}

/**
 * Waits for `promise`, but not longer than `deadlineMs`.
 *
 * @throws {DeadlineError} that names `what` was waited for in vain.
 */
export async function withDeadline<T>(
  deadlineMs: number,
  what: string,
  promise: Promise<T>,
): Promise<T> {
  let callOff = (): void => {};
  const deadline = new Promise<never>((_, reject) => {
    callOff = after(deadlineMs, () =>
      // After a blocked event loop timers come first; the answer may have arrived and not been read.
      setImmediate(() => reject(new DeadlineError(`No answer after ${deadlineMs} ms: ${what}.`))),
    );
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    callOff();
  }
}
