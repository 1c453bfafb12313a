import { QueueError } from "../errors.js";

/** Says that a test waited in vain, for what, and what to do. */
export function timedOut(message: string, cause?: unknown): QueueError {
  return new QueueError("TEST_TIMED_OUT", message, cause === undefined ? {} : { cause });
}
