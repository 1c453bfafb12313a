import { QueueError, type QueueErrorCode } from "../errors.js";

/** Says that a test waited in vain, for what, and what to do. */
export function timedOut(message: string, cause?: unknown): QueueError {
  const code: string = "TEST_TIMED_OUT";
  return new QueueError(code as QueueErrorCode, message, cause === undefined ? {} : { cause });
}
