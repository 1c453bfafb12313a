import { describe, expect, test } from "vitest";
import { z } from "zod";
import { AttemptError, type AttemptErrorCode, FailJob, SnoozeJob } from "../../../src/errors.js";
import { fixed } from "../../../src/registry/backoff.js";
import { defineJob } from "../../../src/registry/define-job.js";
import { abortJob, attemptError, type HeldJob, holdJob } from "../../../src/worker/held-job.js";
import { outcomeOf } from "../../../src/worker/outcome.js";
import { claimedJob } from "../../support/claims.js";

const asked: unknown[][] = [];
const definition = defineJob({
  payload: z.object({}),
  backoff: fixed({ delayMs: 700, jitter: 0 }),
  retryIf(error, attempt) {
    asked.push([error, attempt]);
    if (error instanceof SyntaxError) throw new Error("cannot tell");
    return !(error instanceof RangeError);
  },
});

/** The second of three attempts at job 4. */
const held = (attempts = 2): HeldJob =>
  holdJob(claimedJob({ id: 4, attempts, maxAttempts: 3 }), definition, 0);

const boom = new Error("boom");

describe("an error of the handler", () => {
  test("is retried after the backoff, and retryIf is told of the attempt", () => {
    asked.length = 0;
    expect(outcomeOf(boom, held())).toEqual({ kind: "retry", error: boom, delayMs: 700 });
    expect(asked).toEqual([[boom, { attempt: 2, maxAttempts: 3 }]]);
  });

  test("of the last attempt fails the job, and retryIf is not asked", () => {
    asked.length = 0;
    expect(outcomeOf(boom, held(3))).toEqual({ kind: "fail", error: boom });
    expect(asked).toEqual([]);
  });

  test("that retryIf gives up fails the job", () => {
    const error = new RangeError("hopeless");
    expect(outcomeOf(error, held())).toEqual({ kind: "fail", error });
  });

  test("that retryIf cannot judge is retried", () => {
    const error = new SyntaxError("odd");
    expect(outcomeOf(error, held())).toEqual({ kind: "retry", error, delayMs: 700 });
  });

  test.each([undefined, null, "text", 0, { code: "FailJob" }])("may be %j", (thrown) => {
    expect(outcomeOf(thrown, held())).toEqual({ kind: "retry", error: thrown, delayMs: 700 });
  });
});

describe("a verdict", () => {
  test("FailJob fails the job, whatever attempts are left", () => {
    const verdict = new FailJob("gone");
    expect(outcomeOf(verdict, held(1))).toEqual({ kind: "fail", error: verdict });
  });

  test("SnoozeJob snoozes it, in the last attempt too", () => {
    const verdict = new SnoozeJob({ delayMs: 90 });
    expect(outcomeOf(verdict, held(3))).toEqual({ kind: "snooze", delayMs: 90 });
  });
});

describe("a reason to end the attempt", () => {
  const ways: Record<AttemptErrorCode, object> = {
    LEASE_LOST: { kind: "lost" },
    WORKER_STOPPING: { kind: "release" },
    JOB_CANCELLED: { kind: "cancel" },
    ALREADY_PROCESSED: { kind: "done", result: null, by: "already_processed" },
    STORED_PAYLOAD_INVALID: { kind: "fail" },
    ATTEMPT_TIMED_OUT: { kind: "retry", delayMs: 700 },
    RESULT_INVALID: { kind: "retry", delayMs: 700 },
    COMMITTED_TWICE: { kind: "retry", delayMs: 700 },
  };
  const codes = Object.keys(ways) as AttemptErrorCode[];

  /** With the reason as the error that is stored, where one is. */
  const expected = (code: AttemptErrorCode, error: unknown) => {
    const way = ways[code] as { readonly kind: string };
    return way.kind === "fail" || way.kind === "retry" ? { ...way, error } : way;
  };

  test.each(codes)("%s decides when the handler throws it", (code) => {
    const job = held();
    const reason = attemptError(job, code, "it ended.");
    expect(outcomeOf(reason, job)).toEqual(expected(code, reason));
  });

  test.each(codes)("%s that the handler was told weighs more than what it throws", (code) => {
    const job = held();
    abortJob(job, code, "it ended.");
    for (const thrown of [boom, new FailJob(), new SnoozeJob({ delayMs: 1 }), undefined])
      expect(outcomeOf(thrown, job)).toEqual(expected(code, job.abortReason));
  });

  test("ATTEMPT_TIMED_OUT of the last attempt fails the job", () => {
    const job = held(3);
    abortJob(job, "ATTEMPT_TIMED_OUT", "it ended.");
    expect(outcomeOf(boom, job)).toEqual({ kind: "fail", error: job.abortReason });
  });

  test.each([
    ["another job", { jobId: 5, jobName: "report", attempt: 2 }],
    ["an earlier attempt", { jobId: 4, jobName: "report", attempt: 1 }],
  ])("that belongs to %s is an error like any other", (_, of) => {
    const foreign = new AttemptError("LEASE_LOST", of, "its lease was lost.");
    expect(outcomeOf(foreign, held())).toEqual({ kind: "retry", error: foreign, delayMs: 700 });
  });
});

test("a commit that has succeeded weighs more than all else", () => {
  const job = held();
  abortJob(job, "LEASE_LOST", "its lease was lost.");
  job.commit = "committed";
  for (const thrown of [boom, new FailJob(), job.abortReason])
    expect(outcomeOf(thrown, job)).toEqual({ kind: "committed" });
});
