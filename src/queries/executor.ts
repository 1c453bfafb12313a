import { type SQL, sql } from "drizzle-orm";

/** What a statement may bind: every place in the text casts it, so no driver has to guess a type. */
export type Value = string | number | boolean | null;

/** One SQL statement: `$1`-style text that is the same at each call, and the values of this call. */
export interface Statement {
  /** Names the prepared statement on connections that keep them. Unique per text. */
  readonly name: string;
  readonly text: string;
  readonly values: readonly Value[];
}

/** A row as a driver returns it: int8 as string or bigint, float8 as number. */
export type Row = Readonly<Record<string, unknown>>;

/** Whatever runs a statement: a worker's own connection, or a Drizzle database or transaction. */
export interface Executor {
  run(statement: Statement): Promise<readonly Row[]>;
}

/**
 * The part of a Drizzle PostgreSQL database or transaction that is used, structurally:
 * the named classes differ between drizzle-orm 0.45 and 1.0, and between two installed copies.
 */
export interface PgExecutor {
  // Methods: their parameters are compared in either direction, so both majors' declarations fit.
  execute(query: never, ...rest: never[]): PromiseLike<unknown>;
  /** Only PostgreSQL databases have it: keeps MySQL and SQLite out at compile time. */
  selectDistinctOn(...columns: never[]): unknown;
}

/**
 * Runs statements through a Drizzle database or transaction.
 *
 * `run` is synchronous up to Drizzle's `execute`: a statement that nobody
 * awaits is still sent inside the transaction that it was meant for.
 */
export function drizzleExecutor(target: PgExecutor): Executor {
  return {
    async run(statement) {
      // Drizzle sends when `then` is called, which `await` would put off to a later microtask.
      const result = await new Promise<unknown>((resolve, reject) => {
        target.execute(toSql(statement) as never).then(resolve, reject);
      });
      return (
        Array.isArray(result) ? result : (result as { rows: unknown }).rows
      ) as readonly Row[];
    },
  };
}

/** Texts are few (one per statement and set of tables), so their pieces are kept. */
const piecesOf = new Map<string, readonly string[]>();

function toSql(statement: Statement): SQL {
  let pieces = piecesOf.get(statement.text);
  if (pieces === undefined) {
    // Outside of double quotes only (an even number follows): a table's name may hold a dollar sign.
    pieces = statement.text.split(/\$(\d+)(?=[^"]*(?:"[^"]*"[^"]*)*$)/);
    piecesOf.set(statement.text, pieces);
  }
  // Odd pieces are the numbers of parameters: Drizzle numbers them anew, in order of appearance.
  const chunks = pieces.map((piece, index) =>
    index % 2 === 0 ? sql.raw(piece) : sql.param(statement.values[Number(piece) - 1]),
  );
  return sql.join(chunks);
}
