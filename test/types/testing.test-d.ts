import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import {
  type AttemptErrorCode,
  createQueue,
  defineJob,
  defineJobs,
  type TxOf,
} from "drizzle-queue";
import {
  type AbortCode,
  type DrainedJob,
  type DrainOptions,
  type DrainReport,
  drainJobs,
  type ErroredJob,
  type HandlerEnd,
  type RunHandlerOptions,
  runHandler,
} from "drizzle-queue/testing";
import { defineHandlers, type HandlerFor } from "drizzle-queue/worker";
import { expectTypeOf, test } from "vitest";
import { z } from "zod";

// Checked by the compiler; nothing here is called.

const jobs = defineJobs({
  report: defineJob({
    payload: z.object({ reportId: z.string(), pages: z.number().default(1) }),
  }),
  email: defineJob({
    payload: z.object({ to: z.string() }),
    result: z.object({ kind: z.enum(["a", "b"]), copies: z.number().default(1) }),
  }),
  tick: defineJob({ payload: z.void() }),
});
const queue = createQueue({ jobs });
type Db = NodePgDatabase;
const db: Db = drizzle("postgres://localhost/app");
const handlers = defineHandlers(queue, db, {
  report: ({ commit }) => commit(async (tx) => tx.select().from({} as never)),
  email: () => ({ kind: "a" }),
  tick: () => undefined,
});
const report: HandlerFor<typeof queue, "report", Db> = () => undefined;
type Tick = HandlerEnd<(typeof jobs)["tick"]>;
declare const either: "report" | "email";

test("the name binds the payload and the result", () => {
  const email = () => runHandler({ queue, db, handlers, name: "email", payload: { to: "a" } });
  expectTypeOf(email).returns.resolves.toEqualTypeOf<HandlerEnd<(typeof jobs)["email"]>>();
  const resultOf = async () => {
    const end = await email();
    return end.kind === "done" ? end.result : undefined;
  };
  expectTypeOf(resultOf).returns.resolves.toEqualTypeOf<
    { kind: "a" | "b"; copies: number } | undefined
  >();
  const ofReport = async () => {
    const end = await runHandler({
      queue,
      handlers: { report },
      name: "report",
      payload: { reportId: "a" },
    });
    return end.kind === "done" ? end.result : undefined;
  };
  expectTypeOf(ofReport).returns.resolves.toEqualTypeOf<null | undefined>();
});

test("handlers may be written in place, with the app's own transaction, and keep their literals", () => {
  void (() =>
    runHandler({
      queue,
      db,
      name: "email",
      payload: { to: "a" },
      handlers: {
        email: async ({ payload, job, commit }) => {
          expectTypeOf(payload).toEqualTypeOf<{ to: string }>();
          expectTypeOf(job.name).toEqualTypeOf<"email">();
          return commit((tx) => {
            expectTypeOf(tx).toEqualTypeOf<TxOf<Db>>();
            return { kind: "a" };
          });
        },
      },
    }));
});

test("a transaction of the test takes the place of the database", () => {
  const inTransaction = (tx: TxOf<Db>) =>
    runHandler({ queue, db: tx, handlers, name: "tick", payload: undefined });
  expectTypeOf(inTransaction).returns.resolves.toEqualTypeOf<Tick>();
});

test("the app's handlers need no database where none is given", () => {
  const without = () => runHandler({ queue, handlers, name: "tick", payload: undefined });
  expectTypeOf(without).returns.resolves.toEqualTypeOf<Tick>();
  const none = () =>
    runHandler({ queue, handlers, db: undefined, name: "tick", payload: undefined });
  expectTypeOf(none).returns.resolves.toEqualTypeOf<Tick>();
});

test("a drain tells of the jobs that it serves", () => {
  const all = () => drainJobs({ queue, db, handlers });
  expectTypeOf(all).returns.resolves.toEqualTypeOf<DrainReport<"report" | "email" | "tick">>();
  const some = () => drainJobs({ queue, db, only: ["tick"], handlers });
  expectTypeOf(some).returns.resolves.toEqualTypeOf<DrainReport<"tick">>();
});

test("a report's jobs, and the reasons to abort, have names", () => {
  type Report = DrainReport<"tick">;
  expectTypeOf<Report["done"][number]>().toEqualTypeOf<DrainedJob<"tick">>();
  expectTypeOf<Report["lost"][number]>().toEqualTypeOf<DrainedJob<"tick">>();
  expectTypeOf<Report["errors"][number]>().toEqualTypeOf<ErroredJob<"tick">>();
  expectTypeOf<AbortCode>().toExtend<AttemptErrorCode>();
});

test("what may be left out may be undefined too", () => {
  type WithUndefined<T> = {
    [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? undefined : T[K];
  };
  type Run = RunHandlerOptions<typeof jobs, "report", Db>;
  expectTypeOf<WithUndefined<Run>>().toExtend<Run>();
  type Drain = DrainOptions<typeof jobs, Db, "report">;
  expectTypeOf<WithUndefined<Drain>>().toExtend<Drain>();
});

export function whatDoesNotFitDoesNotCompile(): void {
  // @ts-expect-error -- no such job
  void (() => runHandler({ queue, db, handlers, name: "reprot", payload: { reportId: "a" } }));
  // @ts-expect-error -- another job's payload
  void (() => runHandler({ queue, db, handlers, name: "report", payload: { to: "a" } }));
  // @ts-expect-error -- no payload
  void (() => runHandler({ queue, db, handlers, name: "report" }));
  // @ts-expect-error -- which of the two?
  void (() => runHandler({ queue, db, handlers, name: either, payload: { to: "a" } }));
  // @ts-expect-error -- another job's handler
  void (() => runHandler({ queue, name: "email", payload: { to: "a" }, handlers: { report } }));
  void (() =>
    runHandler({
      queue,
      name: "email",
      payload: { to: "a" },
      // @ts-expect-error -- another result
      handlers: { email: () => ({ kind: "c" }) },
    }));
  void (() =>
    // @ts-expect-error -- no reason of a worker
    runHandler({ queue, handlers, name: "tick", payload: undefined, abort: "RESULT_INVALID" }));
  // @ts-expect-error -- handlers are missing
  void (() => drainJobs({ queue, db, handlers: { report } }));
  // @ts-expect-error -- no such job
  void (() => drainJobs({ queue, db, handlers, only: ["reprot"] }));
}
