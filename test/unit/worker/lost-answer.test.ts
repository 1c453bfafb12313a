import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Row } from "../../../src/queries/executor.js";
import { answerOf } from "../../../src/worker/lost-answer.js";

beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => vi.useRealTimers());

/** Waits for an answer that `settle` gives, and asks a server that says `rows()` of the session. */
function waitFor(rows: () => Promise<readonly Row[]>) {
  let questions = 0;
  let fate = "waiting";
  let settle: (answer: string) => void = () => undefined;
  const answer = new Promise<string>((resolve) => {
    settle = resolve;
  });
  const peer = {
    run() {
      questions += 1;
      return rows();
    },
  };
  answerOf({ what: "claim", answer, pid: 7, peer }).then(
    (given) => {
      fate = given;
    },
    (error: Error) => {
      fate = `${error.name}: ${error.message}`;
    },
  );
  return { settle, fate: () => fate, questions: () => questions };
}

const session = (doing: string, forMs: number) => async () => [{ doing, for_ms: forMs }];

test.each([
  ["has ended the session", async () => []],
  ["has long had nothing to do", session("idle", 1_500)],
  ["has long had a part of the statement", session("receiving", 1_500)],
])("an answer is given up after three seconds if the server %s", async (_, rows) => {
  const { fate } = waitFor(rows);
  await vi.advanceTimersByTimeAsync(2_900);
  expect(fate()).toBe("waiting");
  await vi.advanceTimersByTimeAsync(200);
  expect(fate()).toBe("DeadlineError: No answer after 3000 ms, and the server has none: claim.");
});

test.each([
  ["is at work on it", session("working", 60_000)],
  ["has been idle for a moment only", session("idle", 900)],
  ["cannot be asked", () => Promise.reject(new Error("no connection"))],
  ["does not say", () => new Promise<never>(() => undefined)],
])("an answer is waited for as long as the server %s", async (_, rows) => {
  const { fate, settle } = waitFor(rows);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(fate()).toBe("waiting");
  settle("answer");
  await vi.advanceTimersByTimeAsync(0);
  expect(fate()).toBe("answer");
});

test("one look is not enough: an answer may be on its way", async () => {
  const { fate, settle } = waitFor(session("idle", 1_500));
  await vi.advanceTimersByTimeAsync(2_500);
  settle("answer");
  await vi.advanceTimersByTimeAsync(10_000);
  expect(fate()).toBe("answer");
});

test("nobody is asked of an answer that comes soon, nor after it came", async () => {
  const soon = waitFor(session("idle", 1_500));
  soon.settle("answer");
  const late = waitFor(session("working", 1_500));
  await vi.advanceTimersByTimeAsync(4_500);
  expect(soon.questions()).toBe(0);
  expect(late.questions()).toBe(2);
  late.settle("answer");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(late.questions()).toBe(2);
});
