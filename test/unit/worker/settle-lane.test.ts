import { expect, test } from "vitest";
import { createSettleLane } from "../../../src/worker/settle-lane.js";
import { heldJob, quietBuffer } from "../../support/outcomes.js";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A lane whose statements are answered when the test says so. */
function createLane() {
  const sent: number[] = [];
  const answers: {
    readonly ok: () => void;
    readonly busy: () => void;
    readonly error: (error: Error) => void;
  }[] = [];
  const state = { isWanted: true };
  let id = 0;
  const settles = quietBuffer();
  const lane = createSettleLane({
    settles,
    isWanted: () => state.isWanted,
    send(batch) {
      sent.push(batch.length);
      return new Promise((resolve, reject) => {
        answers.push({
          ok() {
            settles.answered(batch, new Map());
            resolve();
          },
          busy() {
            settles.answered(batch, new Map(batch.map(({ item: { id } }) => [id, "busy"])));
            resolve();
          },
          // As the claim loop does it: what is sent on in parts is no error of the connection.
          error(error) {
            if (settles.errored(batch, error, true)) resolve();
            else reject(error);
          },
        });
      });
    },
  });
  const end = (count: number): void => {
    for (let ended = 0; ended < count; ended += 1) {
      settles.add(heldJob(++id), { kind: "done", result: null, by: "handler" });
      lane.notice();
    }
  };
  return { lane, settles, sent, answers, state, end };
}

test("what ends in one turn of the event loop leaves together, the rest after the answer", async () => {
  const { lane, sent, answers, end } = createLane();
  end(150);
  expect(sent).toEqual([]);
  await turn();
  expect(sent).toEqual([150]);
  end(40);
  end(80);
  await turn();
  expect(sent).toEqual([150]);
  answers[0]?.ok();
  await turn();
  expect(sent).toEqual([150, 120]);
  answers[1]?.ok();
  await lane.underWay();
  await turn();
  expect(lane.underWay()).toBeUndefined();
  end(100);
  await turn();
  expect(sent).toEqual([150, 120, 100]);
});

test("few outcomes are left to the next claim, and so are all when no claim is under way", async () => {
  const { lane, sent, state, end } = createLane();
  end(99);
  await turn();
  expect(lane.takesOver()).toBe(false);
  expect(sent).toEqual([]);
  state.isWanted = false;
  end(1);
  await turn();
  expect(sent).toEqual([]);
  state.isWanted = true;
  expect(lane.takesOver()).toBe(true);
  lane.notice();
  await turn();
  expect(sent).toEqual([100]);
});

test("when more wait than it writes, the claims help", async () => {
  const { lane, sent, answers, end } = createLane();
  end(1_200);
  await turn();
  expect(sent).toEqual([500]);
  expect(lane.takesOver()).toBe(true);
  end(400);
  expect(lane.takesOver()).toBe(false);
  answers[0]?.ok();
  await turn();
  expect(sent).toEqual([500, 500]);
});

test("after an error it leaves outcomes to the claims for a while", async () => {
  const { lane, settles, sent, answers, end } = createLane();
  end(100);
  await turn();
  answers[0]?.error(new Error("Connection terminated"));
  await lane.underWay();
  await turn();
  expect(settles.size()).toBe(100);
  expect(lane.takesOver()).toBe(false);
  lane.notice();
  await turn();
  expect(sent).toEqual([100]);
});

test("a batch that hangs holds up no others: they travel with the claims", async () => {
  const { lane, answers, end } = createLane();
  end(100);
  await turn();
  end(100);
  expect(lane.takesOver()).toBe(true);
  expect(lane.isSlow()).toBe(false);
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(lane.isSlow()).toBe(true);
  expect(lane.takesOver()).toBe(false);
  answers[0]?.ok();
  await turn();
  expect(lane.isSlow()).toBe(false);
});

test("nothing leaves while a batch that the server refused is sent in parts", async () => {
  const { lane, settles, sent, answers, end } = createLane();
  end(100);
  await turn();
  end(100);
  answers[0]?.error(Object.assign(new Error("invalid"), { code: "22P02" }));
  await lane.underWay();
  await turn();
  expect(settles.hasRefused()).toBe(true);
  expect(lane.takesOver()).toBe(false);
  lane.notice();
  await turn();
  expect(sent).toEqual([100]);
});

test("outcomes whose rows are locked are not asked for again and again", async () => {
  const { lane, settles, sent, answers, end } = createLane();
  end(120);
  await turn();
  const batch = sent.length;
  expect(batch).toBe(1);
  let takes = 0;
  const take = settles.take;
  settles.take = (nowMs, hurries) => {
    takes += 1;
    return take(nowMs, hurries);
  };
  answers[0]?.busy();
  for (let turns = 0; turns < 50; turns += 1) await turn();
  expect(lane.underWay()).toBeUndefined();
  expect(takes).toBeLessThan(5);
});
