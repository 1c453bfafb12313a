import { expect, test } from "vitest";
import type { QueueEvent } from "../../../src/instrumentation/instrumentation.js";
import type { ClaimPair, ClaimRequest } from "../../../src/queries/claim-request.js";
import { createAlarm } from "../../../src/worker/alarm.js";
import { createClaimLoop } from "../../../src/worker/claim-loop.js";
import { claimAnswer, claimRequest } from "../../support/claims.js";
import { heldJob, quietBuffer } from "../../support/outcomes.js";
import { waitUntil } from "../../support/wait-until.js";

const pair: ClaimPair = { queue: "default", priority: 5, floor: { atUs: 7_000_000, id: 3 } };
const room = { free: 1, ahead: 0, holdsSuspect: false };
const sweep = { reachMs: 10_000, exclusive: false, suspects: 1 };

const NEVER = Number.POSITIVE_INFINITY;
const request = claimRequest({ pairs: [pair], free: 1 });

type LoopOptions = Parameters<typeof createClaimLoop>[0];

/** A plan that always asks for the same, and learns nothing. */
const planFor = (
  asked: ClaimRequest,
  change: Partial<LoopOptions["plan"]> = {},
): LoopOptions["plan"] => ({
  next: () => asked,
  nextMs: () => 0,
  isBeside: () => false,
  learn: () => undefined,
  forget: () => undefined,
  wake: () => undefined,
  expect: () => undefined,
  yieldsTo: () => undefined,
  ...change,
});

/** A plan that asks for a far sweep beside first, and then always for the same. */
function planWithSweep(far: ClaimRequest): LoopOptions["plan"] {
  let isFirst = true;
  return planFor(request, {
    next() {
      const asked = isFirst ? far : request;
      isFirst = false;
      return asked;
    },
    isBeside: (asked) => asked === far,
  });
}

function createLoop(asked: ClaimRequest, given: Pick<LoopOptions, "send"> & Partial<LoopOptions>) {
  const settles = quietBuffer();
  const loop = createClaimLoop({
    alarm: createAlarm(),
    plan: planFor(asked),
    settles,
    sendBeside: given.send,
    isBesideConnected: () => true,
    releaseStrays: () => Promise.resolve(),
    room: () => room,
    onClaimed: () => undefined,
    emit: undefined,
    ...given,
  });
  return { loop, settles };
}

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

/** Claims whose answers are lost, and a search for their jobs that never works. */
function loopWithStrays(leaseMs: number) {
  const calls: string[] = [];
  const given = createLoop(
    { ...request, leaseMs },
    {
      async send({ items, request: asked }) {
        if (asked !== undefined) {
          calls.push("claim");
          throw new Error("Connection terminated");
        }
        calls.push(`settle ${items.length}`);
        return { unsettled: new Map(), claim: undefined };
      },
      async releaseStrays(_, asked) {
        calls.push(`look for ${asked}`);
        throw Object.assign(new Error("too long"), { code: "57014" });
      },
    },
  );
  return { ...given, calls };
}

test("outcomes are settled though what was lost cannot be looked for", async () => {
  const { loop, settles, calls } = loopWithStrays(30_000);
  const running = loop.run();
  await waitUntil("it was looked for twice", () => calls.length >= 3);
  settles.add(heldJob(1), { kind: "snooze", delayMs: 60_000 });
  loop.notice();
  await waitUntil("the outcome is written", () => settles.size() === 0);
  expect(new Set(calls)).toEqual(new Set(["claim", "look for 1", "settle 1"]));
  loop.end();
  await running;
});

test("once its lease has run out, what was lost is no longer looked for, and claims go on", async () => {
  const { loop, calls } = loopWithStrays(200);
  const running = loop.run();
  await waitUntil("it claims again", () => calls.filter((call) => call === "claim").length > 1);
  loop.end();
  await running;
  expect(calls).toContain("look for 1");
});

test("a far sweep beside that errors does not pause the claims", async () => {
  const far = { ...request, sweep: { ...sweep, reachMs: null } };
  const events: QueueEvent[] = [];
  const forgotten: unknown[] = [];
  let claims = 0;
  const { loop } = createLoop(request, {
    plan: {
      ...planWithSweep(far),
      forget: (asked, { isRefused }) => void forgotten.push([asked, isRefused]),
    },
    async send() {
      claims += 1;
      if (claims === 20) loop.end();
      return { unsettled: new Map(), claim: claimAnswer() };
    },
    sendBeside: () => Promise.reject(Object.assign(new Error("bad row"), { code: "22023" })),
    emit: (event) => events.push(event),
  });
  const startedMs = performance.now();
  await loop.run();
  // Less than the first pause after an error.
  expect(performance.now() - startedMs).toBeLessThan(50);
  expect(forgotten).toEqual([[far, true]]);
  expect(events).toMatchObject([{ type: "statement.errored", statement: "claim", retryInMs: 0 }]);
});
