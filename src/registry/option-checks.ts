import { QueueError } from "../errors.js";

/** The longest job or queue name, in bytes of UTF-8. */
export const MAX_NAME_BYTES = 128;
/** The largest number of a 32-bit column, and of a timer. */
export const MAX_INT32 = 2_147_483_647;

const encoder = new TextEncoder();

/** The length of a text in UTF-8; not counted where it cannot exceed the limit, which no text does up to a third of it. */
export const utf8Length = (text: string, maxBytes: number): number =>
  text.length * 3 <= maxBytes ? text.length : encoder.encode(text).length;

/** Tells what PostgreSQL could not store in a text, or a driver would change; undefined for none. */
export function textFault(text: string): string | undefined {
  if (text.includes("\0")) return "contains \\u0000";
  // PostgreSQL refuses it in jsonb, drivers change it in text.
  if (!text.isWellFormed()) return "contains a lone surrogate";
  return undefined;
}

/** What can be asked for any property. */
export type Properties = Readonly<Record<string, unknown>>;

/** Tells what has properties of its own, arrays among them. */
export const isObject = (value: unknown): value is Properties =>
  typeof value === "object" && value !== null;

/** Builds the error of an option: what it must be, and of which kind it was, never its text. */
export function invalidOption(option: string, must: string, got: unknown): QueueError {
  const kind = typeof got === "number" || got === null ? got : typeof got;
  return new QueueError("INVALID_OPTION", `${option} must be ${must}, got ${kind}.`);
}

/** Demands that a list names every option of `O`: a new one cannot be forgotten. */
type NamesAll<O, Known extends readonly unknown[]> =
  Exclude<keyof O, Known[number]> extends never
    ? unknown
    : { readonly __missing: Exclude<keyof O, Known[number]> };

/**
 * Refuses an option that is not known, with the hint for it if there is one.
 *
 * @throws {QueueError} `INVALID_OPTION` when `given` is no object or has such a key.
 */
export function refuseUnknownOptions<
  O extends object,
  const Known extends readonly (keyof O & string)[],
>(
  of: string,
  given: O,
  known: Known & NamesAll<O, Known>,
  hints?: ReadonlyMap<string, string>,
): void {
  if (!isObject(given)) throw invalidOption(of, "an object", given);
  for (const option of Object.keys(given)) {
    if ((known as readonly string[]).includes(option)) continue;
    const hint = hints?.get(option) ?? `Known are ${known.join(", ")}.`;
    throw new QueueError(
      "INVALID_OPTION",
      `${of}: unknown option ${JSON.stringify(option.slice(0, MAX_NAME_BYTES))}. ${hint}`,
    );
  }
}

/** @throws {QueueError} `INVALID_OPTION` when `value` is not a number in the range. */
export function checkNumber(option: string, value: unknown, min: number, max: number): void {
  if (typeof value === "number" && value >= min && value <= max) return;
  throw invalidOption(option, `a number from ${min} to ${max}`, value);
}

/** @throws {QueueError} `INVALID_OPTION` when `value` is not an integer in the range. */
export function checkInteger(option: string, value: unknown, min: number, max: number): void {
  if (typeof value === "number" && value % 1 !== 0)
    throw invalidOption(option, "an integer", value);
  checkNumber(option, value, min, max);
}

/** @throws {QueueError} `INVALID_OPTION` when `value` is no text of that many bytes that can be stored. */
export function checkText(
  option: string,
  value: unknown,
  maxBytes = MAX_NAME_BYTES,
  minBytes = 1,
): void {
  if (typeof value !== "string") throw invalidOption(option, "a string", value);
  const fault = textFault(value);
  if (fault !== undefined)
    throw new QueueError("INVALID_OPTION", `${option} ${fault}, which cannot be stored.`);
  const bytes = utf8Length(value, maxBytes);
  if (bytes >= minBytes && bytes <= maxBytes) return;
  throw new QueueError(
    "INVALID_OPTION",
    `${option} must be ${minBytes} to ${maxBytes} bytes long, got ${bytes} bytes.`,
  );
}

/** @throws {QueueError} `INVALID_OPTION` when `value` is not a function. */
export function checkFunction(option: string, value: unknown): void {
  if (typeof value !== "function") throw invalidOption(option, "a function", value);
}
