import type { Issue } from "../errors.js";
import { isObject, textFault, utf8Length } from "./option-checks.js";

/** The deepest nesting that is stored; PostgreSQL and V8 both fail on unbounded ones. */
const MAX_DEPTH = 100;

/** Whatever JSON can hold. */
export type JsonValue =
  | null
  | string
  | number
  | boolean
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** Says where a value is not JSON, and why. */
export class JsonFault extends Error implements Issue {
  readonly path: readonly (string | number)[];

  constructor(path: readonly (string | number)[], message: string) {
    super(message);
    this.path = path;
  }
}

type Path = readonly (string | number)[];

/** What is left of the size that a value may have, counted at one byte per part: an estimate from below. */
interface Budget {
  readonly limit: number;
  left: number;
}

/** A value as JSON. */
export interface Json {
  /** Undefined for undefined, whose text is `null`. */
  readonly value: JsonValue | undefined;
  readonly text: string;
}

/**
 * Copies a value as JSON would write it, but refuses what JSON would change or
 * drop without a word, and what jsonb cannot hold.
 *
 * @throws {JsonFault} at the first part that cannot be stored, or when the whole is too large.
 */
export function toJson(given: unknown, maxBytes: number): Json {
  const value = copy(given, [], { limit: maxBytes, left: maxBytes });
  const text = JSON.stringify(value ?? null);
  if (utf8Length(text, maxBytes) > maxBytes) throw tooLarge(maxBytes);
  return { value, text };
}

const tooLarge = (maxBytes: number): JsonFault =>
  new JsonFault(
    [],
    `is larger than ${maxBytes} bytes as JSON (maxPayloadBytes); store it elsewhere and a reference here`,
  );

function copy(given: unknown, path: (string | number)[], budget: Budget): JsonValue | undefined {
  const value = hasToJson(given) ? given.toJSON(String(path.at(-1) ?? "")) : given;
  budget.left -= typeof value === "string" ? value.length + 1 : 1;
  // A value that shares its parts can be exponentially larger in JSON than in memory.
  if (budget.left < 0) throw tooLarge(budget.limit);
  if (isObject(value)) return copyObject(value, path, budget);
  checkLeaf(value, path);
  return value;
}

type JsonLeaf = null | string | number | boolean | undefined;

function checkLeaf(value: unknown, path: Path): asserts value is JsonLeaf {
  if (typeof value === "string") return checkString(value, path);
  if (value === null || value === undefined || typeof value === "boolean") return;
  const kind = typeof value === "number" ? String(value) : `a ${typeof value}`;
  if (!Number.isFinite(value)) throw unstorable(path, `is ${kind}`);
}

const unstorable = (path: Path, what: string): JsonFault =>
  new JsonFault([...path], `${what}, which cannot be stored`);

function copyObject(value: object, path: (string | number)[], budget: Budget): JsonValue {
  if (path.length >= MAX_DEPTH) {
    throw new JsonFault(
      path.slice(0, 10),
      `is nested deeper than ${MAX_DEPTH} levels, or contains itself`,
    );
  }
  if (Array.isArray(value)) {
    const items: JsonValue[] = [];
    for (let index = 0; index < value.length; index += 1) {
      path.push(index);
      const item = copy(value[index], path, budget);
      // JSON would make null of it.
      if (item === undefined) throw unstorable(path, "is undefined");
      items.push(item);
      path.pop();
    }
    return items;
  }
  checkPlain(value, path);
  const properties: Record<string, JsonValue> = {};
  for (const key of Object.keys(value)) {
    path.push(key);
    checkString(key, path);
    const property = copy((value as Record<string, unknown>)[key], path, budget);
    if (property !== undefined) set(properties, key, property);
    path.pop();
  }
  return properties;
}

function set(properties: Record<string, JsonValue>, key: string, property: JsonValue): void {
  if (key !== "__proto__") properties[key] = property;
  // Assigned, it would become the prototype.
  else
    Object.defineProperty(properties, key, {
      value: property,
      writable: true,
      enumerable: true,
      configurable: true,
    });
}

/** A Map or a RegExp would be written as `{}`. */
function checkPlain(value: object, path: Path): void {
  const tag = Object.prototype.toString.call(value);
  if (tag !== "[object Object]") throw unstorable(path, `is a ${tag.slice(8, -1)}`);
}

function checkString(text: string, path: Path): void {
  const fault = textFault(text);
  if (fault !== undefined) throw unstorable(path, fault);
}

function hasToJson(value: unknown): value is { toJSON(key: string): unknown } {
  return (
    isObject(value) &&
    !(value instanceof Date && Number.isNaN(value.getTime())) &&
    typeof value["toJSON"] === "function"
  );
}
