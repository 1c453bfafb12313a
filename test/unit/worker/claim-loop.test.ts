import { expect, test } from "vitest";
import type { QueueEvent } from "../../../src/instrumentation/instrumentation.js";
import type { ClaimPair, ClaimRequest } from "../../../src/queries/claim-request.js";
import { claimAnswer } from "../../support/claims.js";
import { createLoop, pair, planFor, planWithSweep, request, sweep } from "../../support/loops.js";
import { heldJob } from "../../support/outcomes.js";

const NEVER = Number.POSITIVE_INFINITY;

/** Sends one claim whose answer is lost; tells where its jobs are then looked for. */
async function straysOf(asked: ClaimRequest["sweep"]): Promise<readonly ClaimPair[]> {
  let looked: readonly ClaimPair[] = [];
  const { loop } = createLoop(
    { ...request, sweep: asked },
    {
      send: () => Promise.reject(new Error("Connection terminated")),
      async releaseStrays(pairs) {
        looked = pairs;
        loop.end();
      },
    },
  );
  await loop.run();
  return looked;
}

/** What travels with a claim, and what beside it, when so many outcomes are to be written. */
async function travelling(outcomes: number) {
  const sent = { withClaim: 0, beside: 0 };
  const answer = { unsettled: new Map(), claim: undefined };
  const { loop, settles } = createLoop(request, {
    async send({ items }) {
      sent.withClaim += items.length;
      await new Promise((resolve) => setTimeout(resolve, 20));
      loop.end();
      return answer;
    },
    async sendBeside({ items, request: claim }) {
      expect(claim).toBeUndefined();
      sent.beside += items.length;
      return answer;
    },
  });
  for (let id = 1; id <= outcomes; id += 1)
    settles.add(heldJob(id), { kind: "done", result: null, by: "handler" });
  await loop.run();
  expect(settles.size()).toBe(0);
  return sent;
}

test("few outcomes travel with the claim, many beside it", async () => {
  expect(await travelling(99)).toEqual({ withClaim: 99, beside: 0 });
  expect(await travelling(100)).toEqual({ withClaim: 0, beside: 100 });
});

test("what a batch beside writes is waited for before the loop ends, and sent again if it errors", async () => {
  const sent: string[] = [];
  const { loop, settles } = createLoop(request, {
    async send({ items, request: asked }) {
      sent.push(`${asked === undefined ? "settle" : "claim"} ${items.length}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
      return { unsettled: new Map(), claim: undefined };
    },
    async sendBeside({ items }) {
      sent.push(`beside ${items.length}`);
      loop.finish();
      hasRoom = false;
      await new Promise((resolve) => setTimeout(resolve, 60));
      throw new Error("Connection terminated");
    },
    plan: planFor(request, { next: () => (hasRoom ? request : undefined), nextMs: () => NEVER }),
  });
  let hasRoom = true;
  for (let id = 1; id <= 100; id += 1) settles.add(heldJob(id), { kind: "snooze", delayMs: 400 });
  await loop.run();
  expect(sent).toEqual(["claim 0", "beside 100", "settle 100"]);
  expect(settles.size()).toBe(0);
});

test("a retry is expected until a claim has left after it was written, and no longer", async () => {
  const expected: number[] = [];
  let claims = 0;
  const { loop, settles } = createLoop(request, {
    async send() {
      claims += 1;
      if (claims === 3) loop.end();
      return { unsettled: new Map(), claim: claimAnswer() };
    },
    plan: planFor(request, { expect: (dueMs) => void expected.push(dueMs) }),
  });
  settles.add(heldJob(1), { kind: "snooze", delayMs: 400 });
  await loop.run();
  expect(expected.map(Number.isFinite)).toEqual([true, false, false]);
});

test("where there is no other connection, all outcomes travel with the claim", async () => {
  const sent: number[] = [];
  const { loop, settles } = createLoop(request, {
    async send({ items }) {
      sent.push(items.length);
      await new Promise((resolve) => setTimeout(resolve, 20));
      loop.end();
      return { unsettled: new Map(), claim: undefined };
    },
    sendBeside: undefined,
  });
  for (let id = 1; id <= 300; id += 1) settles.add(heldJob(id), { kind: "snooze", delayMs: 400 });
  await loop.run();
  expect(sent).toEqual([300]);
});

test("outcomes that could not be written beside a claim go with the next one", async () => {
  const events: QueueEvent[] = [];
  const sent: number[] = [];
  const { loop, settles } = createLoop(request, {
    async send({ items }) {
      sent.push(items.length);
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (sent.length === 2) loop.end();
      return { unsettled: new Map(), claim: undefined };
    },
    sendBeside: () => Promise.reject(new Error("Connection terminated")),
    emit: (event) => void events.push(event),
  });
  for (let id = 1; id <= 100; id += 1) settles.add(heldJob(id), { kind: "snooze", delayMs: 400 });
  await loop.run();
  expect(sent).toEqual([0, 100]);
  expect(events).toMatchObject([{ type: "statement.errored", statement: "settle", retryInMs: 0 }]);
});

test("a retry written beside a claim is expected even where the claim is answered last", async () => {
  const calls: string[] = [];
  const { loop, settles } = createLoop(request, {
    async send() {
      await new Promise((resolve) => setTimeout(resolve, 20));
      loop.end();
      return { unsettled: new Map(), claim: claimAnswer() };
    },
    sendBeside: () => Promise.resolve({ unsettled: new Map(), claim: undefined }),
    plan: planFor(request, {
      learn: () => void calls.push("learn"),
      expect: (dueMs) => void (dueMs < Number.POSITIVE_INFINITY && calls.push("expect")),
    }),
  });
  for (let id = 1; id <= 100; id += 1) settles.add(heldJob(id), { kind: "snooze", delayMs: 400 });
  await loop.run();
  expect(calls.at(-1)).toBe("expect");
  expect(calls).toContain("learn");
});

test("claims go on beside a far sweep that takes long, with the slots that it leaves", async () => {
  const far = { ...request, free: 3, sweep: { ...sweep, reachMs: null } };
  const offered: number[] = [];
  const aheadOffered: number[] = [];
  const answered: ClaimRequest[] = [];
  let answerSweep = (): void => undefined;
  const { loop } = createLoop(request, {
    room: () => ({ free: 5, ahead: 9, holdsSuspect: false }),
    plan: planFor(request, {
      next(_, { free, ahead }) {
        offered.push(free);
        aheadOffered.push(ahead);
        return offered.length === 1 ? far : request;
      },
      isBeside: (asked) => asked === far,
      learn: (asked) => void answered.push(asked),
    }),
    async send() {
      if (answered.length === 2) {
        // It is to be waited for: what it claims is to be given back.
        loop.finish();
        answerSweep();
      }
      return { unsettled: new Map(), claim: claimAnswer() };
    },
    sendBeside: () =>
      new Promise((resolve) => {
        answerSweep = () => resolve({ unsettled: new Map(), claim: claimAnswer() });
      }),
  });
  await loop.run();
  expect(offered.slice(0, 4)).toEqual([5, 2, 2, 2]);
  expect(aheadOffered.slice(0, 2)).toEqual([9, 0]);
  expect(answered.slice(0, 2)).toEqual([request, request]);
  expect(answered).toContain(far);
});

test("nothing is given back while a far sweep beside may have claimed it", async () => {
  const far = { ...request, sweep: { ...sweep, reachMs: null } };
  const calls: string[] = [];
  let answerSweep = (): void => undefined;
  const { loop } = createLoop(request, {
    plan: planWithSweep(far),
    async send() {
      setTimeout(() => answerSweep(), 20);
      throw new Error("Connection terminated");
    },
    sendBeside: () =>
      new Promise((resolve) => {
        answerSweep = () => resolve({ unsettled: new Map(), claim: claimAnswer() });
      }),
    onClaimed: () => void calls.push("claimed"),
    async releaseStrays() {
      calls.push("given back");
      loop.end();
    },
  });
  await loop.run();
  expect(calls).toEqual(["claimed", "given back"]);
});

test("outcomes are settled while what was lost has to wait for a far sweep beside", async () => {
  const far = { ...request, sweep: { ...sweep, reachMs: null } };
  const calls: string[] = [];
  let answerSweep = (): void => undefined;
  const { loop, settles } = createLoop(request, {
    plan: planWithSweep(far),
    async send({ items, request: asked }) {
      calls.push(asked === undefined ? `settle ${items.length}` : "claim");
      if (asked === undefined) {
        answerSweep();
        return { unsettled: new Map(), claim: undefined };
      }
      settles.add(heldJob(1), { kind: "snooze", delayMs: 60_000 });
      throw new Error("Connection terminated");
    },
    sendBeside: () =>
      new Promise((resolve) => {
        answerSweep = () => resolve({ unsettled: new Map(), claim: claimAnswer() });
      }),
    async releaseStrays() {
      calls.push("given back");
      loop.end();
    },
  });
  await loop.run();
  expect(calls).toEqual(["claim", "settle 1", "given back"]);
});

test("many outcomes do not leave behind a far sweep, but with the claim", async () => {
  const far = { ...request, sweep: { ...sweep, reachMs: null } };
  const sent: number[] = [];
  let answerSweep = (): void => undefined;
  const { loop, settles } = createLoop(request, {
    plan: planWithSweep(far),
    async send({ items }) {
      sent.push(items.length);
      loop.finish();
      answerSweep();
      return { unsettled: new Map(), claim: claimAnswer() };
    },
    sendBeside: ({ items }) => {
      expect(items).toEqual([]);
      return new Promise((resolve) => {
        answerSweep = () => resolve({ unsettled: new Map(), claim: claimAnswer() });
      });
    },
  });
  for (let id = 1; id <= 100; id += 1) settles.add(heldJob(id), { kind: "snooze", delayMs: 400 });
  await loop.run();
  expect(sent[0]).toBe(100);
});

test("jobs of a claim whose answer was lost are looked for above its floors", async () => {
  expect(await straysOf(undefined)).toEqual([pair]);
});

test("those of a sweep are looked for below them, too", async () => {
  expect(await straysOf(sweep)).toEqual([pair, { ...pair, floor: null }]);
});

test("outcomes do not wait for a connection beside that is down", async () => {
  const sent: number[] = [];
  const { loop, settles } = createLoop(request, {
    isBesideFree: () => false,
    async send({ items }) {
      sent.push(items.length);
      loop.end();
      return { unsettled: new Map(), claim: claimAnswer() };
    },
  });
  for (let id = 1; id <= 200; id += 1)
    settles.add(heldJob(id), { kind: "snooze", delayMs: 60_000 });
  await loop.run();
  expect(sent).toEqual([200]);
});
