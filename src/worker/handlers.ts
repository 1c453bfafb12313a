import { QueueError } from "../errors.js";
import type { PgDatabase, PgTransaction, TxOf } from "../queries/transaction.js";
import type {
  JobDefinition,
  JobMap,
  JobsOf,
  PayloadOutput,
  ResultInput,
} from "../registry/job-definition.js";

/** The facts of the job that a handler runs. */
export interface HandlerJob<N extends string = string> {
  readonly id: number;
  readonly name: N;
  readonly queue: string;
  readonly priority: number;
  /** This attempt's number, counted from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** No attempt is left after this one. */
  readonly isLastAttempt: boolean;
  /** The key to hand to destinations outside of the database, so that they refuse a second time. */
  readonly idempotencyKey: string | null;
  readonly createdAt: Date;
}

/**
 * Runs `effect` in a transaction of the app's database that also completes the job.
 *
 * Effect, processed key and completion are committed together or not at all.
 * What `effect` returns is awaited in the transaction, a query of Drizzle too. With a `result`
 * schema it is the job's result, and what `commit` gives back; without, it does not count.
 *
 * @throws {AttemptError} `LEASE_LOST` when another attempt holds the job: nothing was written.
 */
export type Commit<D, Tx> = (effect: (tx: Tx) => EffectReturn<D>) => Promise<ResultInput<D>>;

/** In brackets, since the worker's own code knows no more of a definition than `never`. */
type EffectReturn<D> = [D] extends [{ readonly result: undefined }]
  ? unknown
  : Promise<ResultInput<D>> | ResultInput<D>;

/** What a handler receives. */
export interface HandlerContext<D, N extends string, Tx> {
  /** The stored payload, parsed by its schema. */
  readonly payload: PayloadOutput<D>;
  readonly job: HandlerJob<N>;
  /** Aborts when the attempt must end; its reason says why. */
  readonly signal: AbortSignal;
  readonly commit: Commit<D, Tx>;
}

/**
 * Keeps literals in what a handler returns: `{ kind: "a" }` stays that, and does
 * not become `{ kind: string }`, while the compiler still infers the registry.
 * Once it is known, this is never.
 */
type KeepLiterals<D> = JobDefinition extends D ? LiteralHint : never;
type LiteralHint =
  | `${number}`
  | 0
  | true
  | readonly LiteralHint[]
  | { readonly [key: string]: LiteralHint };

/** The app's function that does a job's work. */
export type Handler<D, N extends string, Tx> = (
  context: HandlerContext<D, N, Tx>,
) => Promise<ResultInput<D>> | ResultInput<D> | KeepLiterals<D>;

/** One handler for each of the names `N` of a registry, no more and no fewer. */
export type Handlers<M extends JobMap, Tx, N extends keyof M & string = keyof M & string> = {
  readonly [K in N]: Handler<M[K], K, Tx>;
};

/**
 * The type of one job's handler, for a handler in a file of its own.
 *
 * @example
 * export const report: HandlerFor<typeof queue, "report", typeof db> = async ({ payload, commit }) => {
 *   await commit((tx) => save(tx, payload));
 * };
 */
export type HandlerFor<Q, N extends keyof JobsOf<Q> & string, DB> = Handler<
  JobsOf<Q>[N],
  N,
  TxOf<DB>
>;

/**
 * Binds a handler to each job of a queue.
 *
 * With `db`, the `tx` of `commit` is the app's own transaction type; without,
 * it is the part that every Drizzle transaction has. `db` is not used otherwise.
 *
 * @throws {QueueError} `INVALID_OPTION` when a handler is missing, unknown or not a function.
 * @example
 * export const handlers = defineHandlers(queue, db, {
 *   report: async ({ payload, commit }) => commit((tx) => save(tx, payload)),
 * });
 */
export function defineHandlers<M extends JobMap, DB extends PgDatabase>(
  queue: { readonly jobs: M },
  db: DB,
  // Not a place to infer from: a result such as "pdf" would widen to string.
  handlers: NoInfer<Handlers<M, TxOf<DB>>>,
): Handlers<M, TxOf<DB>>;
export function defineHandlers<M extends JobMap>(
  queue: { readonly jobs: M },
  handlers: NoInfer<Handlers<M, PgTransaction>>,
): Handlers<M, PgTransaction>;
export function defineHandlers(
  queue: { readonly jobs: JobMap },
  dbOrHandlers: object,
  handlers: object = dbOrHandlers,
): unknown {
  return checkHandlers(queue.jobs, Object.keys(queue.jobs), handlers);
}

/**
 * Copies the handlers of `names` to an object without a prototype, so that a
 * job called `constructor` finds its own handler or none. Those of other jobs of the
 * registry are left aside: workers may share one object of handlers.
 *
 * @throws {QueueError} `INVALID_OPTION` when a handler is missing, not a function, or for no job of the registry.
 */
export function checkHandlers(
  jobs: JobMap,
  names: readonly string[],
  handlers: object,
): Readonly<Record<string, (context: never) => unknown>> {
  const given = new Map<string, unknown>(Object.entries(handlers));
  const checked: Record<string, (context: never) => unknown> = Object.create(null);
  for (const name of names) {
    const handler = given.get(name);
    if (typeof handler !== "function") {
      throw new QueueError(
        "INVALID_OPTION",
        `handlers: job "${name}" needs a function, got ${typeof handler}. Add it, or leave the job out with \`only\`.`,
      );
    }
    checked[name] = handler as (context: never) => unknown;
  }
  const unknown = [...given.keys()].find((name) => !Object.hasOwn(jobs, name));
  if (unknown !== undefined)
    throw new QueueError(
      "INVALID_OPTION",
      `handlers: "${unknown}" is not a job of the registry. Remove it, or add the job to defineJobs().`,
    );
  return Object.freeze(checked);
}
