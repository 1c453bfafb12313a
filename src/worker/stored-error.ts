import { underlyingError } from "../instrumentation/instrumentation.js";

/** What a row keeps of an attempt's error: plain text of bounded length. */
export interface StoredError {
  readonly code: string | null;
  readonly name: string;
  readonly message: string;
  readonly stack: string | null;
}

const MAX_NAME_LENGTH = 100;
const MAX_MESSAGE_LENGTH = 2_000;
const MAX_STACK_LENGTH = 4_000;

/**
 * Describes any thrown value in text that PostgreSQL can store; never throws.
 *
 * The write that records an error must not itself be refused: NUL and lone
 * surrogates, which jsonb does not take, are replaced.
 */
export function storedError(thrown: unknown): StoredError {
  const error = readable(thrown);
  return {
    code: textOf(error, "code", MAX_NAME_LENGTH) || null,
    name: textOf(error, "name", MAX_NAME_LENGTH) || "Error",
    message: messageOf(error),
    stack: textOf(error, "stack", MAX_STACK_LENGTH) || null,
  };
}

function readable(thrown: unknown): unknown {
  try {
    return underlyingError(thrown);
  } catch {
    // A proxy that refuses to be looked at is described by what remains.
    return thrown;
  }
}

/** The same in one line, for lists. */
export function errorLine({ code, name, message }: StoredError): string {
  const title = firstLine(code ?? name);
  return clean(message === "" ? title : `${title}: ${firstLine(message)}`, 500);
}

const firstLine = (text: string): string => text.split("\n", 1)[0] ?? "";

function messageOf(thrown: unknown): string {
  const own = textOf(thrown, "message", MAX_MESSAGE_LENGTH);
  if (own !== null) return own;
  try {
    return clean(
      `Not an error but ${typeof thrown} was thrown: ${String(thrown)}`,
      MAX_MESSAGE_LENGTH,
    );
  } catch {
    // String() itself threw, as on an object without a prototype.
    return `Not an error but ${typeof thrown} was thrown, which cannot be read as text.`;
  }
}

/** Reads a property that may be missing, of another type, or a getter that throws. */
function textOf(thrown: unknown, property: string, maxLength: number): string | null {
  if ((typeof thrown !== "object" && typeof thrown !== "function") || thrown === null) return null;
  try {
    const value = (thrown as Record<string, unknown>)[property];
    return typeof value === "string" ? clean(value, maxLength) : null;
  } catch {
    // A hostile getter or proxy has nothing that we could store.
    return null;
  }
}

function clean(text: string, maxLength: number): string {
  return text.slice(0, maxLength).toWellFormed().replaceAll("\0", "\uFFFD");
}
