import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import {
  type AttemptError,
  createQueue,
  defineJob,
  defineJobs,
  type Enqueued,
  type EnqueueItem,
  type EnqueueOptions,
  type ExponentialOptions,
  type FixedOptions,
  isAttemptError,
  isQueueError,
  type JobSettings,
  type PayloadInput,
  type PayloadOf,
  type PayloadOutput,
  type PgExecutor,
  type QueueError,
  type QueueOptions,
  type RequireTx,
  type ResultInput,
  type ResultOutput,
  type TxOf,
} from "drizzle-queue";
import type {
  HandlerFor,
  Retention,
  Worker,
  WorkerOptions,
  WorkerSettings,
} from "drizzle-queue/worker";
import { expectTypeOf, test } from "vitest";
import { z } from "zod";

// What must not compile, and why: test/compile-errors.

const jobs = defineJobs({
  report: defineJob({
    payload: z.object({
      id: z.string(),
      pages: z.number().default(10),
      at: z.iso.datetime().transform((text) => new Date(text)),
    }),
    idempotencyKey: (payload) => {
      expectTypeOf(payload).toEqualTypeOf<{ id: string; pages: number; at: Date }>();
      return [payload.id, payload.pages];
    },
  }),
  email: defineJob({
    payload: z.string(),
    result: z.object({ at: z.string().transform((text) => new Date(text)) }),
  }),
});
const queue = createQueue({ jobs });
type Jobs = typeof jobs;
type Db = NodePgDatabase;

test("payloads go in as the schema's input and come out as its output", () => {
  expectTypeOf<PayloadInput<Jobs["report"]>>().toEqualTypeOf<{
    id: string;
    at: string;
    pages?: number | undefined;
  }>();
  expectTypeOf<PayloadOutput<Jobs["report"]>>().toEqualTypeOf<{
    id: string;
    pages: number;
    at: Date;
  }>();
});

test("results go in as the schema's input and come out as its output; without a schema there is none", () => {
  expectTypeOf<ResultInput<Jobs["email"]>>().toEqualTypeOf<{ at: string }>();
  expectTypeOf<ResultOutput<Jobs["email"]>>().toEqualTypeOf<{ at: Date }>();
  expectTypeOf<ResultInput<Jobs["report"]>>().toEqualTypeOf<void>();
  expectTypeOf<ResultOutput<Jobs["report"]>>().toEqualTypeOf<null>();
});

test("the transaction type is that of the database", () => {
  expectTypeOf<TxOf<Db>>().toEqualTypeOf<Parameters<Parameters<Db["transaction"]>[0]>[0]>();
});

test("an enqueue answers with the name it was given", () => {
  const enqueueReport = (tx: TxOf<Db>) => queue.enqueue(tx, "report", { id: "a", at: "" });
  expectTypeOf(enqueueReport).returns.resolves.toEqualTypeOf<Enqueued<"report">>();
});

test("a handler receives the parsed payload and the app's own transaction", () => {
  type Context = Parameters<HandlerFor<typeof queue, "report", Db>>[0];
  expectTypeOf<Context["payload"]>().toEqualTypeOf<PayloadOutput<Jobs["report"]>>();
  expectTypeOf<Context["job"]["name"]>().toEqualTypeOf<"report">();
  expectTypeOf<Parameters<Parameters<Context["commit"]>[0]>[0]>().toEqualTypeOf<TxOf<Db>>();
});

/** `T` with undefined for each property that may be left out. */
type WithUndefined<T> = {
  [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? undefined : T[K];
};

test("what may be left out may be undefined too, also under exactOptionalPropertyTypes", () => {
  expectTypeOf<WithUndefined<EnqueueOptions>>().toExtend<EnqueueOptions>();
  expectTypeOf<WithUndefined<EnqueueItem<Jobs>>>().toExtend<EnqueueItem<Jobs>>();
  expectTypeOf<WithUndefined<JobSettings>>().toExtend<JobSettings>();
  expectTypeOf<WithUndefined<ExponentialOptions>>().toExtend<ExponentialOptions>();
  expectTypeOf<WithUndefined<FixedOptions>>().toExtend<FixedOptions>();
  expectTypeOf<WithUndefined<QueueOptions<Jobs>>>().toExtend<QueueOptions<Jobs>>();
  expectTypeOf<WithUndefined<WorkerSettings>>().toExtend<WorkerSettings>();
  expectTypeOf<WithUndefined<Retention>>().toExtend<Retention>();
  type Options = WorkerOptions<Jobs, Db, "report">;
  expectTypeOf<WithUndefined<Options>>().toExtend<Options>();
  type Stop = NonNullable<Parameters<Worker["stop"]>[0]>;
  expectTypeOf<WithUndefined<Stop>>().toExtend<Stop>();
});

test("a definition has every setting", () => {
  expectTypeOf<Jobs["report"]["queue"]>().toEqualTypeOf<string>();
  expectTypeOf<Jobs["report"]["timeoutMs"]>().toEqualTypeOf<number | null>();
});

test("undefined takes the place of a key function or a result schema", () => {
  const definition = defineJob({
    payload: z.object({ id: z.string() }),
    idempotencyKey: undefined,
    result: undefined,
    backoff: undefined,
  });
  expectTypeOf<ResultInput<typeof definition>>().toEqualTypeOf<void>();
});

test("an error is narrowed by its code, and stays what it is where the code is another", () => {
  const told = (error: QueueError | AttemptError): string => {
    if (isQueueError(error, "IDEMPOTENCY_CONFLICT")) {
      expectTypeOf(error.code).toEqualTypeOf<"IDEMPOTENCY_CONFLICT">();
    } else if (isAttemptError(error, "LEASE_LOST")) {
      expectTypeOf(error.code).toEqualTypeOf<"LEASE_LOST">();
    } else {
      expectTypeOf(error).toEqualTypeOf<QueueError | AttemptError>();
    }
    return isQueueError(error) ? error.code : error.jobName;
  };
  expectTypeOf(told).returns.toBeString();
});

test("the payload of a job and the demand for a transaction have names for an app's own functions", () => {
  type EnqueueOfJobs = <T extends PgExecutor, N extends keyof Jobs>(
    tx: T & RequireTx<T>,
    name: N,
    payload: PayloadOf<Jobs, N>,
    options?: EnqueueOptions,
  ) => Promise<Enqueued<N>>;
  expectTypeOf(queue.enqueue).toExtend<EnqueueOfJobs>();
});
