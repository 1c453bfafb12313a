import { QueueError } from "../errors.js";
import { refuseUnknownOptions, utf8Length } from "../registry/option-checks.js";

/** Where the queue's tables are: the options that `createQueueTables` and `createQueue` share. */
export interface TablePlace {
  /** The PostgreSQL schema, 1 to 63 bytes. @default "public" */
  readonly schema?: string | undefined;
  /** What every table name begins with, up to 33 bytes. @default "queue_" */
  readonly prefix?: string | undefined;
}

/** The names of the queue's tables, and what is derived from them. */
export interface TableNames {
  readonly schema: string;
  readonly prefix: string;
  /** Quoted and schema-qualified, ready to stand in SQL. */
  readonly jobs: string;
  readonly processedKeys: string;
  readonly workers: string;
  readonly controls: string;
  readonly schedules: string;
  /** The NOTIFY channel of this set of tables: 30 bytes, whatever the names are. */
  readonly channel: string;
  /** The advisory lock of this set of tables' sweep, a 64-bit integer in decimal. */
  readonly sweepLock: string;
}

/** The longest identifier PostgreSQL keeps whole; a longer one is cut without an error. */
const MAX_IDENTIFIER_BYTES = 63;
/** The longest suffix that a name of ours adds to the prefix. */
const LONGEST_SUFFIX = "processed_keys_name_key_unique".length;

const quote = (identifier: string): string => `"${identifier}"`;

/**
 * Names the tables at a place.
 *
 * @throws {QueueError} `INVALID_OPTION` when an option is unknown, or a name is empty, too long,
 * or holds a NUL, a double quote or a backslash.
 */
export function tableNames(place: TablePlace = {}): TableNames {
  // A misspelt one would put the tables where nobody looks for them.
  refuseUnknownOptions("tables", place, ["schema", "prefix"]);
  const { schema = "public", prefix = "queue_" } = place;
  checkIdentifier("schema", schema, MAX_IDENTIFIER_BYTES);
  if (prefix !== "") checkIdentifier("prefix", prefix, MAX_IDENTIFIER_BYTES - LONGEST_SUFFIX);
  const qualified = (name: string): string => `${quote(schema)}.${quote(prefix + name)}`;
  const hash = fingerprint(`${schema}\0${prefix}`);
  return Object.freeze({
    schema,
    prefix,
    jobs: qualified("jobs"),
    processedKeys: qualified("processed_keys"),
    workers: qualified("workers"),
    controls: qualified("controls"),
    schedules: qualified("schedules"),
    channel: `drizzle_queue_${hash.toString(16).padStart(16, "0")}`,
    sweepLock: BigInt.asIntN(64, hash).toString(),
  });
}

/** No quote, no backslash: drizzle-kit writes names to migrations and snapshots as they are. */
function checkIdentifier(option: string, value: unknown, maxBytes: number): void {
  if (typeof value === "string" && value !== "" && !/[\0"\\]/.test(value)) {
    if (utf8Length(value, maxBytes) <= maxBytes) return;
  }
  throw new QueueError(
    "INVALID_OPTION",
    `tables.${option} must be a name of 1 to ${maxBytes} bytes without NUL, double quote or backslash.`,
  );
}

/** FNV-1a in 64 bits: short, and the same in every process. */
function fingerprint(text: string): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash;
}
