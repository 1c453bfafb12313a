import { $ZodAsyncError, type $ZodIssue, type $ZodType, safeEncode, safeParse } from "zod/v4/core";
import { type Issue, QueueError } from "../errors.js";
import type { JobDefinition } from "./job-definition.js";
import { type Json, JsonFault, toJson } from "./json-value.js";
import { isObject, type Properties } from "./option-checks.js";

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
 * unknown keys are gone. Where that cannot be had, or would give the worker
 * another output than the one that was accepted, it is the JSON as it was given.
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
  if (checked.success) return { ok: true, output: checked.data };
  // A payload of z.void() is stored as null.
  const asVoid = stored === null ? check(definition.payload, undefined) : checked;
  if (asVoid.success) return { ok: true, output: asVoid.data };
  return {
    ok: false,
    issues: checked.issues.map(({ path, code }) => ({ path, message: code })),
  };
}

function toStored(what: string, schema: $ZodType, given: unknown, maxBytes: number): ParsedPayload {
  const { value, text } = jsonOf(what, given, maxBytes);
  const checked = check(schema, value);
  if (!checked.success) throw refusal(what, checked.issues, checked.cause);
  const output = checked.data;
  // The usual case, told without writing JSON again: nothing was filled in, left out or changed.
  const stored = isAlike(value, output) ? text : canonical(schema, output, text, maxBytes);
  return { output, stored, input: text };
}

/** Compares by parts; two instances of a class that it does not know are never alike. */
function isAlike(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (!isObject(a) || !isObject(b)) return false;
  const kind = classOf(a);
  if (kind !== classOf(b)) return false;
  switch (kind) {
    case Object:
    case Array:
      return haveAlikeParts(a, b);
    case Map:
    case Set:
      return isAlike([...(a as unknown as Set<unknown>)], [...(b as unknown as Set<unknown>)]);
    case Date:
      return Number(a) === Number(b);
    default:
      return false;
  }
}

function haveAlikeParts(a: Properties, b: Properties): boolean {
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && isAlike(a[key], b[key]))
  );
}

/** A key `constructor` of the value itself does not count. */
const classOf = (value: object): unknown => Object.getPrototypeOf(value)?.constructor;

/** Turns the output back to input if the worker will make the same output of that; else what was given stays. */
function canonical(schema: $ZodType, output: unknown, input: string, maxBytes: number): string {
  try {
    const encoded = safeEncode(schema, output);
    if (!encoded.success) return input;
    const { value, text } = toJson(encoded.data, maxBytes);
    const again = check(schema, value);
    return again.success && isAlike(again.data, output) ? text : input;
  } catch {
    // A one-way transform, or an encoded form that JSON cannot hold: both are normal schemas.
    return input;
  }
}

function jsonOf(what: string, given: unknown, maxBytes: number): Json {
  try {
    return toJson(given, maxBytes);
  } catch (error) {
    // Whatever else was thrown came from a getter or a toJSON of the payload.
    throw error instanceof JsonFault
      ? refusal(what, [error])
      : refusal(what, [{ path: [], message: "cannot be read" }], error);
  }
}

interface CodedIssue extends Issue {
  readonly code: string;
}

type Checked =
  | { readonly success: true; readonly data: unknown }
  | { readonly success: false; readonly issues: readonly CodedIssue[]; readonly cause?: unknown };

/** Synchronous on purpose: whoever awaits before its SQL may land in another transaction. */
function check(schema: $ZodType, value: unknown): Checked {
  try {
    const result = safeParse(schema, value);
    if (result.success) return result;
    return { success: false, issues: result.error.issues.map(toIssue) };
  } catch (error) {
    const message =
      error instanceof $ZodAsyncError
        ? "the schema must not have asynchronous refinements or transforms"
        : "the schema threw an error";
    return { success: false, issues: [{ path: [], message, code: message }], cause: error };
  }
}

const toIssue = (issue: $ZodIssue): CodedIssue => ({
  path: issue.path.map((key) => (typeof key === "symbol" ? String(key) : key)),
  message: issue.message,
  code: issue.code,
});

/** How many issues a message tells; `issues` holds all. */
const ISSUES_IN_MESSAGE = 5;

function refusal(what: string, issues: readonly Issue[], cause?: unknown): QueueError {
  const told = issues
    .slice(0, ISSUES_IN_MESSAGE)
    .map(({ path, message }) =>
      path.length === 0 ? message : `${path.join(".").slice(0, 200)}: ${message}`,
    );
  const more = issues.length > told.length ? `; and ${issues.length - told.length} more` : "";
  return new QueueError(
    cause instanceof $ZodAsyncError ? "INVALID_OPTION" : "INVALID_PAYLOAD",
    `${what} is invalid: ${told.join("; ")}${more}.`,
    {
      issues: issues.map(({ path, message }) => ({ path, message })),
      ...(cause !== undefined && { cause }),
    },
  );
}
