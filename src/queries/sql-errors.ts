/** How many causes are followed: a chain may be a ring. */
const MAX_CAUSES = 5;

/** Reads the SQLSTATE of a driver's error, which Drizzle keeps in its `cause`. */
export function sqlState(error: unknown, depth = 0): string | undefined {
  if (typeof error !== "object" || error === null || depth > MAX_CAUSES) return undefined;
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: unknown };
  // Every SQLSTATE has a digit; EPIPE and its like, of a broken connection, have none.
  if (typeof code === "string" && /^(?=.*\d)[0-9A-Z]{5}$/.test(code)) return code;
  return sqlState(cause, depth + 1);
}

/**
 * Data that the server refuses whenever it is sent: by its type, size or
 * constraints, or by what a trigger of the app raises (classes 27, 38, 39, 44 and P0, and
 * those that the SQL standard leaves to implementations and PostgreSQL 18 does not use).
 */
export function isDataError(error: unknown): boolean {
  return /^(21|22|23|27|38|39|44|54|[689]|7[^2]|[I-WYZ])/.test(sqlState(error) ?? "");
}

/** The server gave a statement up for its length, or was told to. */
export const isTooLong = (error: unknown): boolean => sqlState(error) === "57014";

/** Somebody held a lock that the statement could not skip for longer than the session waits. */
export const isLockTimeout = (error: unknown): boolean => sqlState(error) === "55P03";

/** A row had changed since the snapshot, where the isolation is stricter than READ COMMITTED, which a database may have as its default. */
export const isSerializationFailure = (error: unknown): boolean => sqlState(error) === "40001";

/** A delete was refused since a row of the app refers to the job. */
export const isForeignKeyViolation = (error: unknown): boolean => sqlState(error) === "23503";

/**
 * The server said no, so the statement did nothing; without its word, as after
 * a lost connection, it may have been carried out.
 */
export function isAnswered(error: unknown): boolean {
  const state = sqlState(error);
  return state !== undefined && !/^(08|57P)/.test(state);
}
