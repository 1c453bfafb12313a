import {
  createQueue,
  defineJob,
  defineJobs,
  FailJob,
  fixed,
  isQueueError,
  SnoozeJob,
} from "drizzle-queue";
import { runHandler } from "drizzle-queue/testing";
import { defineHandlers, type HandlerFor } from "drizzle-queue/worker";
import { describe, expect, test, vi } from "vitest";
import { z } from "zod";

const jobs = defineJobs({
  report: defineJob({
    payload: z.object({
      reportId: z.string(),
      format: z.enum(["pdf", "csv"]).default("pdf"),
      at: z.codec(z.iso.datetime(), z.date(), {
        decode: (text) => new Date(text),
        encode: (date) => date.toISOString(),
      }),
    }),
    idempotencyKey: ({ reportId, format }) => [reportId, format],
    queue: "reports",
    priority: 3,
    maxAttempts: 4,
    backoff: fixed({ delayMs: 1_000, jitter: 0 }),
    retryIf: (error) => !(error instanceof RangeError),
  }),
  email: defineJob({
    payload: z.object({ to: z.string() }),
    result: z.object({ messageId: z.string(), copies: z.number().default(1) }),
  }),
  tick: defineJob({ payload: z.void(), timeoutMs: 30 }),
});
const queue = createQueue({ jobs });
const payload = { reportId: "r1", at: "2030-01-01T00:00:00.000Z" };

type Report = HandlerFor<typeof queue, "report", never>;
const runReport = (report: Report, attempt?: number) =>
  runHandler({ queue, name: "report", payload, attempt, handlers: { report } });
const throwing = (error: unknown, attempt?: number) =>
  runReport(() => {
    throw error;
  }, attempt);

describe("what a handler is given", () => {
  test("is the payload as a worker parses it, and a job with the definition's settings", async () => {
    const seen: unknown[] = [];
    const end = await runReport(({ payload, job, signal, commit }) => {
      seen.push(payload, job, signal.aborted, typeof commit);
    });
    expect(end).toEqual({ kind: "done", result: null, isCommitted: false });
    expect(seen).toEqual([
      { reportId: "r1", format: "pdf", at: new Date("2030-01-01") },
      {
        id: 1,
        name: "report",
        queue: "reports",
        priority: 3,
        attempt: 1,
        maxAttempts: 4,
        isLastAttempt: false,
        idempotencyKey: '["r1","pdf"]',
        createdAt: expect.any(Date),
      },
      false,
      "function",
    ]);
  });

  test("follows the options of an enqueue, and the attempt", async () => {
    const seen: unknown[] = [];
    await runHandler({
      queue,
      name: "report",
      payload,
      attempt: 2,
      options: { maxAttempts: 2, priority: 0, queue: "other", idempotencyKey: "mine" },
      handlers: { report: ({ job }) => void seen.push(job) },
    });
    expect(seen).toEqual([
      expect.objectContaining({
        attempt: 2,
        maxAttempts: 2,
        isLastAttempt: true,
        priority: 0,
        queue: "other",
        idempotencyKey: "mine",
      }),
    ]);
  });

  test("comes from the app's whole object of handlers too", async () => {
    const handlers = defineHandlers(queue, {
      report: () => undefined,
      email: ({ payload }) => ({ messageId: payload.to }),
      tick: () => undefined,
    });
    const end = await runHandler({ queue, name: "email", payload: { to: "a@b" }, handlers });
    expect(end).toEqual({
      kind: "done",
      result: { messageId: "a@b", copies: 1 },
      isCommitted: false,
    });
  });
});

describe("how an attempt ends", () => {
  test("an error is retried after the job's backoff", async () => {
    const error = new Error("no paper");
    expect(await throwing(error)).toEqual({ kind: "retry", error, delayMs: 1_000 });
  });

  test("an error of the last attempt fails the job, as does one that is not worth retrying", async () => {
    const error = new Error("no paper");
    expect(await throwing(error, 4)).toEqual({ kind: "fail", error });
    const range = new RangeError("too many pages");
    expect(await throwing(range)).toEqual({ kind: "fail", error: range });
  });

  test("the verdicts are told as such", async () => {
    const gone = new FailJob("gone");
    expect(await throwing(gone)).toEqual({ kind: "fail", error: gone });
    expect(await throwing(new SnoozeJob({ delayMs: 5_000 }), 4)).toEqual({
      kind: "snooze",
      delayMs: 5_000,
    });
  });

  test("whatever is thrown is an error", async () => {
    expect(await throwing("paper")).toEqual({ kind: "retry", error: "paper", delayMs: 1_000 });
    expect(await throwing(undefined)).toMatchObject({ kind: "retry", error: undefined });
  });

  test("a result that does not fit its schema is an error of the attempt", async () => {
    const email = (() => ({ messageId: 5 })) as never;
    const end = await runHandler({
      queue,
      name: "email",
      payload: { to: "a" },
      handlers: { email },
    });
    expect(end).toMatchObject({ kind: "retry", error: { code: "RESULT_INVALID", jobId: 1 } });
  });
});

describe("an abort", () => {
  const waitFor = (signal: AbortSignal): Promise<never> =>
    new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(new Error(String(signal.reason.code))));
    });

  test.each([
    ["JOB_CANCELLED", { kind: "cancel" }],
    ["LEASE_LOST", { kind: "lost" }],
    ["WORKER_STOPPING", { kind: "release" }],
    ["ATTEMPT_TIMED_OUT", { kind: "retry", delayMs: 1_000, error: { code: "ATTEMPT_TIMED_OUT" } }],
  ] as const)(
    "by %s is the reason of the signal, and decides how the attempt ends",
    async (abort, end) => {
      const reasons: unknown[] = [];
      const report: Report = async ({ signal }) => {
        await waitFor(signal).catch((error: Error) => {
          reasons.push(error.message);
          throw error;
        });
      };
      const ended = await runHandler({
        queue,
        name: "report",
        payload,
        abort,
        handlers: { report },
      });
      expect(ended).toMatchObject(end);
      expect(reasons).toEqual([abort]);
    },
  );

  test("comes in the midst of the work when a promise says so", async () => {
    let begin = (): void => {};
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const steps: string[] = [];
    const end = await runHandler({
      queue,
      name: "report",
      payload,
      abort: begun.then(() => "JOB_CANCELLED"),
      handlers: {
        async report({ signal }) {
          steps.push(`aborted: ${signal.aborted}`);
          begin();
          await waitFor(signal).catch(() => steps.push("tidied up"));
        },
      },
    });
    // It returned, but not before it was told to end.
    expect(end).toEqual({ kind: "cancel" });
    expect(steps).toEqual(["aborted: false", "tidied up"]);
  });

  test("that a stopping worker makes leaves a handler that returns its success", async () => {
    const end = await runHandler({
      queue,
      name: "report",
      payload,
      abort: "WORKER_STOPPING",
      handlers: {
        report: ({ signal }) => waitFor(signal).catch(() => undefined),
      },
    });
    expect(end).toMatchObject({ kind: "done" });
  });

  test("comes by itself once the job's own time is up", async () => {
    const end = await runHandler({
      queue,
      name: "tick",
      payload: undefined,
      handlers: { tick: ({ signal }) => waitFor(signal) },
    });
    expect(end).toMatchObject({ kind: "retry", error: { code: "ATTEMPT_TIMED_OUT" } });
  });

  test("comes in a moment where the test's clock is a fake", async () => {
    vi.useFakeTimers();
    try {
      const running = runReport(({ signal }) => waitFor(signal));
      await vi.advanceTimersByTimeAsync(900_000);
      expect(await running).toMatchObject({ kind: "retry", error: { code: "ATTEMPT_TIMED_OUT" } });
    } finally {
      vi.useRealTimers();
    }
  });

  test("that a handler ignores is told after a second", async () => {
    const running = runHandler({
      queue,
      name: "report",
      payload,
      abort: "JOB_CANCELLED",
      handlers: { report: () => new Promise<void>(() => undefined) },
    });
    await expect(running).rejects.toThrow(
      'the handler of job "report" still runs 1000 ms after its signal was aborted (JOB_CANCELLED)',
    );
  });

  test("whose promise rejects is an error of the test", async () => {
    const running = runHandler({
      queue,
      name: "report",
      payload,
      abort: Promise.reject(new Error("the stub broke")),
      handlers: { report: ({ signal }) => waitFor(signal) },
    });
    await expect(running).rejects.toThrow("the stub broke");
  });
});

describe("commit with a fake", () => {
  const fake = (log: string[]) =>
    ({
      async transaction(run: (tx: object) => Promise<unknown>) {
        log.push("begin");
        await run({ insert: (what: string) => log.push(what) });
        log.push("commit");
      },
    }) as never;

  test("hands on whatever its transaction gives, and sends nothing of its own", async () => {
    const log: string[] = [];
    const end = await runHandler({
      queue,
      name: "email",
      payload: { to: "a" },
      db: fake(log),
      handlers: {
        email: ({ commit }) =>
          commit(async (tx: { insert(what: string): void }) => {
            tx.insert("a row");
            return { messageId: "m" };
          }),
      },
    });
    expect(end).toEqual({ kind: "done", result: { messageId: "m", copies: 1 }, isCommitted: true });
    expect(log).toEqual(["begin", "a row", "commit"]);
  });

  test("an error of COMMIT is an error of the attempt", async () => {
    const error = new Error("connection lost");
    const db = {
      async transaction(run: (tx: object) => Promise<unknown>) {
        await run({});
        throw error;
      },
    } as never;
    const report: Report = ({ commit }) => commit(() => undefined);
    const end = await runHandler({ queue, name: "report", payload, db, handlers: { report } });
    expect(end).toEqual({ kind: "retry", error, delayMs: 1_000 });
  });

  test("without a database it is a mistake of the test, also where the handler catches it", async () => {
    const running = runReport(async ({ commit }) => {
      await commit(() => undefined).catch(() => undefined);
    });
    await expect(running).rejects.toThrow("db must be given");
    await expect(running).rejects.toSatisfy((error) => isQueueError(error, "INVALID_OPTION"));
  });
});

describe("a wrong call is refused before the handler runs:", () => {
  const ran: string[] = [];
  const handlers = { report: () => void ran.push("report") };
  const right = { queue, name: "report", payload, handlers } as const;
  const wrong: Readonly<Record<string, readonly [object, string, string]>> = {
    "an unknown option": [{ ...right, jobName: "report" }, "INVALID_OPTION", "jobName"],
    "no queue": [{ ...right, queue: undefined }, "INVALID_OPTION", "queue must be"],
    "an unknown job": [{ ...right, name: "reprot" }, "UNKNOWN_JOB", "reprot"],
    "a wrong payload": [{ ...right, payload: { reportId: 5 } }, "INVALID_PAYLOAD", "reportId"],
    "a wrong option of enqueue": [
      { ...right, options: { priority: 10 } },
      "INVALID_OPTION",
      "priority",
    ],
    "no handlers": [{ ...right, handlers: undefined }, "INVALID_OPTION", "handlers must be"],
    "no handler for the job": [{ ...right, handlers: {} }, "INVALID_OPTION", 'job "report"'],
    "no database": [{ ...right, db: {} }, "INVALID_OPTION", "db must be"],
    "attempt zero": [{ ...right, attempt: 0 }, "INVALID_OPTION", "attempt must be"],
    "an attempt too many": [{ ...right, attempt: 5 }, "INVALID_OPTION", "attempt must be"],
    "an unknown reason": [{ ...right, abort: "NO" }, "INVALID_OPTION", "abort must be one of"],
  };

  test.each(Object.entries(wrong))("%s", async (_, [options, code, message]) => {
    const running = runHandler(options as never);
    await expect(running).rejects.toMatchObject({ code });
    await expect(running).rejects.toThrow(message);
    expect(ran).toEqual([]);
  });
});

test("a promise of no reason at all is refused", async () => {
  const running = runHandler({
    queue,
    name: "report",
    payload,
    abort: Promise.resolve("NO" as never),
    handlers: { report: () => new Promise<void>(() => undefined) },
  });
  await expect(running).rejects.toThrow("abort must be one of");
});

test("a promise of a reason that rejects after another option was refused disturbs nobody", async () => {
  const unhandled = vi.fn<() => void>();
  process.on("unhandledRejection", unhandled);
  const running = runHandler({
    queue,
    name: "report",
    payload: { reportId: 5 } as never,
    abort: Promise.reject(new Error("the stub broke")),
    handlers: { report: () => undefined },
  });
  await expect(running).rejects.toMatchObject({ code: "INVALID_PAYLOAD" });
  await new Promise((resolve) => {
    setTimeout(resolve, 5);
  });
  process.off("unhandledRejection", unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});
