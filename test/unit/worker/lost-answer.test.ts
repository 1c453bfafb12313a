import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Row, Statement } from "../../../src/queries/executor.js";
import { answerOf } from "../../../src/worker/lost-answer.js";

beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => vi.useRealTimers());

/** Waits for an answer that `settle` gives, and asks a server that says `rows()` of the session. */
function waitFor(
  rows: () => Promise<readonly Row[]>,
  { bytes = 0, transferredBytes = (): number => 500 } = {},
) {
  const asked: string[] = [];
  let fate = "waiting";
  let settle: (answer: string) => void = () => undefined;
  const answer = new Promise<string>((resolve) => {
    settle = resolve;
  });
  const peer = {
    run({ name }: Statement) {
      asked.push(name.replace("drizzle_queue_", ""));
      return rows();
    },
  };
  answerOf({ what: "claim", bytes, answer, pid: 7, transferredBytes, peer }).then(
    (given) => {
      fate = given;
    },
    (error: Error) => {
      fate = `${error.name}: ${error.message}`;
    },
  );
  return { settle, fate: () => fate, asked };
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

test("the session is ended before its answer is given up: what the network still holds is not to be carried out", async () => {
  let end = (): void => undefined;
  const ended = new Promise<readonly Row[]>((resolve) => {
    end = () => resolve([]);
  });
  const { fate, asked } = waitFor(() =>
    asked.at(-1) === "terminate_backend" ? ended : session("idle", 1_500)(),
  );
  await vi.advanceTimersByTimeAsync(3_500);
  expect(asked).toEqual(["backend_state", "backend_state", "terminate_backend"]);
  expect(fate()).toBe("waiting");
  end();
  await vi.advanceTimersByTimeAsync(0);
  expect(fate()).toMatch(/^DeadlineError/);
});

test("an answer that is still coming in is waited for, though its session has nothing left to do", async () => {
  let bytes = 500;
  const { fate } = waitFor(session("idle", 1_500), { transferredBytes: () => (bytes += 10) });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(fate()).toBe("waiting");
});

test("a statement of a megabyte is given ten seconds more to arrive", async () => {
  const { fate, asked } = waitFor(session("idle", 20_000), { bytes: 1_000_000 });
  await vi.advanceTimersByTimeAsync(11_900);
  expect(asked).toEqual([]);
  await vi.advanceTimersByTimeAsync(1_200);
  expect(fate()).toMatch(/^DeadlineError/);
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
  expect(soon.asked).toEqual([]);
  expect(late.asked).toEqual(["backend_state", "backend_state"]);
  late.settle("answer");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(late.asked).toHaveLength(2);
});
