import { $ZodAsyncError, type $ZodIssue, type $ZodType, encode, safeParse } from "zod/v4/core";
import { type Issue, QueueError } from "../errors.js";
import type { JobDefinition } from "./job-definition.js";
import { JsonFault, type JsonValue, toJsonValue } from "./json-value.js";
import { utf8Length } from "./option-checks.js";

/** A payload that was accepted. */
export interface ParsedPayload {
  /** The schema's output: what a handler will see, and what the key is derived from. */
  readonly output: unknown;
  /** What is stored, as JSON text. */
  readonly stored: string;
  /** What the caller gave, as JSON text: the input hash is taken of it. */
  readonly input: string;
}

/** What came of reading a stored payload. */
export type StoredPayload =
  | { readonly ok: true; readonly output: unknown }
  | { readonly ok: false; readonly issues: readonly Issue[] };

/**
 * Checks a payload on its way in, and gives the form that is stored.
 *
 * What the schema sees is the payload after a trip through JSON, as the worker
 * will see it. Stored is the canonical input: defaults are filled in and kept,
 * unknown keys are gone; where a transform cannot be turned back, the JSON as
 * it was given.
 *
 * @throws {QueueError} `INVALID_PAYLOAD` with the issues' paths, `INVALID_OPTION` for an asynchronous schema.
 */
export function parsePayload(
  name: string,
  definition: JobDefinition,
  payload: unknown,
  maxBytes: number,
): ParsedPayload {
  return toStored(`Payload of job "${name}"`, definition.payload, payload, maxBytes);
}

/**
 * Checks what a handler returned, and gives the JSON text that is stored; null without a result schema.
 *
 * @throws {QueueError} `INVALID_PAYLOAD` when the result does not fit its schema or JSON.
 */
export function parseResult(
  name: string,
  definition: JobDefinition,
  result: unknown,
  maxBytes: number,
): string | null {
  if (definition.result === undefined) return null;
  return toStored(`Result of job "${name}"`, definition.result, result, maxBytes).stored;
}

/**
 * Checks a stored payload on its way out. Never throws; the issues hold paths
 * and kinds only, since they are stored and logged.
 */
export function parseStored(definition: JobDefinition, stored: unknown): StoredPayload {
  const checked = check(definition.payload, stored);
  if (checked.ok) return checked;
  // A payload of z.void() is stored as null.
  const asVoid = stored === null ? check(definition.payload, undefined) : checked;
  if (asVoid.ok) return asVoid;
  return { ok: false, issues: checked.issues.map(({ path, code }) => ({ path, message: code })) };
}

function toStored(what: string, schema: $ZodType, given: unknown, maxBytes: number): ParsedPayload {
  const { value, text } = toJson(what, given, maxBytes);
  const checked = check(schema, value);
  if (!checked.ok) throw refusal(what, checked.issues, checked.cause);
  const { output } = checked;
  const stored = isSame(value, output) ? text : canonical(schema, output, text, maxBytes);
  return { output, stored, input: text };
}

/** Tells the usual case, that nothing was filled in, left out or changed, without writing JSON again. */
function isSame(given: unknown, output: unknown): boolean {
  if (given === output) return true;
  if (!isObject(given) || !isObject(output)) return false;
  const keys = Object.keys(given);
  return (
    keys.length === Object.keys(output).length &&
    keys.every((key) => Object.hasOwn(output, key) && isSame(given[key], output[key]))
  );
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

/** Turns the output back to input; what cannot be turned back is stored as it was given. */
function canonical(schema: $ZodType, output: unknown, input: string, maxBytes: number): string {
  try {
    // Nothing was filled in or left out: then the input is its own canonical form.
    if (JSON.stringify(output) === input) return input;
    const { value, text } = sizedJson(encode(schema, output), maxBytes);
    return check(schema, value).ok ? text : input;
  } catch {
    // A one-way transform, or an encoded form that JSON cannot hold: both are normal schemas.
    return input;
  }
}

interface Json {
  readonly value: JsonValue | undefined;
  readonly text: string;
}

function toJson(what: string, given: unknown, maxBytes: number): Json {
  try {
    return sizedJson(given, maxBytes);
  } catch (error) {
    // Whatever else was thrown came from a getter or a toJSON of the payload.
    throw error instanceof JsonFault
      ? refusal(what, [error])
      : refusal(what, [new JsonFault([], "cannot be read")], error);
  }
}

/** @throws {JsonFault} when it cannot be stored, or is too large. */
function sizedJson(given: unknown, maxBytes: number): Json {
  const value = toJsonValue(given, maxBytes);
  const text = JSON.stringify(value ?? null);
  const bytes = utf8Length(text, maxBytes);
  if (bytes <= maxBytes) return { value, text };
  throw new JsonFault([], `has ${bytes} bytes as JSON, the limit is ${maxBytes} (maxPayloadBytes)`);
}

interface CodedIssue extends Issue {
  readonly code: string;
}

type Checked =
  | { readonly ok: true; readonly output: unknown }
  | { readonly ok: false; readonly issues: readonly CodedIssue[]; readonly cause: unknown };

/** Synchronous on purpose: whoever awaits before its SQL may land in another transaction. */
function check(schema: $ZodType, value: unknown): Checked {
  try {
    const result = safeParse(schema, value);
    if (result.success) return { ok: true, output: result.data };
    return { ok: false, issues: result.error.issues.map(toIssue), cause: undefined };
  } catch (error) {
    const [code, message] =
      error instanceof $ZodAsyncError
        ? [ASYNC, "the schema is asynchronous; use synchronous refinements and transforms"]
        : ["threw", "the schema threw an error"];
    return { ok: false, issues: [{ path: [], message, code }], cause: error };
  }
}

const ASYNC = "asynchronous";

const toIssue = (issue: $ZodIssue): CodedIssue => ({
  path: issue.path.map((key) => (typeof key === "symbol" ? String(key) : key)),
  message: issue.message,
  code: issue.code,
});

/** How many issues a message tells; `issues` holds all. */
const ISSUES_IN_MESSAGE = 5;

function refusal(what: string, issues: readonly CodedIssue[], cause?: unknown): QueueError {
  const told = issues
    .slice(0, ISSUES_IN_MESSAGE)
    .map(({ path, message }) =>
      path.length === 0 ? message : `${path.join(".").slice(0, 200)}: ${message}`,
    );
  const more = issues.length > told.length ? `; and ${issues.length - told.length} more` : "";
  return new QueueError(
    issues[0]?.code === ASYNC ? "INVALID_OPTION" : "INVALID_PAYLOAD",
    `${what} is invalid: ${told.join("; ")}${more}.`,
    {
      issues: issues.map(({ path, message }) => ({ path, message })),
      ...(cause === undefined ? {} : { cause }),
    },
  );
}
