import { QueueError } from "../errors.js";
import type { EventError } from "../instrumentation/instrumentation.js";
import type { JobDefinition, ResultOutput } from "../registry/job-definition.js";
import { parseStored } from "../registry/parse-payload.js";
import { inJsonbOrder } from "./jsonb-order.js";
import type { AttemptEnd } from "./run-attempt.js";

/** How an attempt would end on a worker; `D` is the job's definition. */
export type HandlerEnd<D = JobDefinition> =
  | {
      readonly kind: "done";
      /** What is read back as the job's result: null without a result schema. */
      readonly result: ResultOutput<D>;
      /** Whether `commit` completed the job; else the handler's return did. */
      readonly isCommitted: boolean;
      /** What the handler threw after its commit had succeeded: an event on a worker, and the job is done all the same. */
      readonly errorAfterCommit?: EventError;
    }
  /** It errored and is tried again after `delayMs`, by the job's backoff. */
  | { readonly kind: "retry"; readonly error: unknown; readonly delayMs: number }
  /** It failed for good: `FailJob`, the last attempt, or `retryIf` said no. */
  | { readonly kind: "fail"; readonly error: unknown }
  | { readonly kind: "snooze"; readonly delayMs: number }
  /** It is given back, its attempt with it: the worker stops. */
  | { readonly kind: "release" }
  | { readonly kind: "cancel" }
  /** Another attempt holds the job: nothing is written. */
  | { readonly kind: "lost" };

/**
 * Tells an outcome in the terms of a test.
 *
 * @throws {QueueError} `INVALID_PAYLOAD` when the result cannot be read back by its own schema.
 */
export function handlerEnd(
  name: string,
  definition: JobDefinition,
  { outcome, committedResult, errorAfterCommit }: AttemptEnd,
): HandlerEnd {
  switch (outcome.kind) {
    case "done":
      return {
        kind: "done",
        result: readBack(name, definition, outcome.result),
        isCommitted: false,
      };
    case "committed":
      return {
        kind: "done",
        result: readBack(name, definition, committedResult),
        isCommitted: true,
        ...(errorAfterCommit !== undefined && { errorAfterCommit }),
      };
    case "retry":
    case "fail":
    case "snooze":
    case "release":
    case "cancel":
    case "lost":
      return outcome;
  }
}

function readBack(
  name: string,
  definition: JobDefinition,
  text: string | null,
): ResultOutput<JobDefinition> {
  const { result } = definition;
  if (result === undefined || text === null) return null;
  // A result is stored as a payload is, and read in the same way.
  const stored = parseStored({ ...definition, payload: result }, JSON.parse(inJsonbOrder(text)));
  if (stored.ok) return stored.output;
  throw new QueueError(
    "INVALID_PAYLOAD",
    `Result of job "${name}" cannot be read back by its schema once it is stored. See that the schema takes what it gives.`,
    { issues: stored.issues },
  );
}
