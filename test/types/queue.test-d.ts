import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import {
  createQueue,
  defineJob,
  defineJobs,
  type Enqueued,
  type PayloadInput,
  type PayloadOutput,
  type ResultInput,
  type ResultOutput,
  type TxOf,
} from "drizzle-queue";
import type { HandlerFor } from "drizzle-queue/worker";
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
