import { expect, test } from "vitest";
import type { QueueEvent } from "../../../src/instrumentation/instrumentation.js";
import { claimAnswer } from "../../support/claims.js";
import { createLoop, planFor, planWithSweep, request, room, sweep } from "../../support/loops.js";
import { heldJob } from "../../support/outcomes.js";
import { waitUntil } from "../../support/wait-until.js";

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

test("while a sweep beside is waited for before strays are looked for, the loop sleeps", async () => {
  const far = { ...request, sweep: { ...sweep, reachMs: null } };
  let looks = 0;
  const { loop } = createLoop(request, {
    plan: planWithSweep(far),
    send: () => Promise.reject(new Error("Connection terminated")),
    sendBeside: () =>
      new Promise((resolve) =>
        setTimeout(() => resolve({ unsettled: new Map(), claim: claimAnswer() }), 150),
      ),
    room() {
      looks += 1;
      return room;
    },
    async releaseStrays() {
      loop.end();
    },
  });
  await loop.run();
  expect(looks).toBeLessThan(20);
});

test("a claim that was refused together with outcomes goes by itself before its sweep is blamed", async () => {
  const forgotten: boolean[] = [];
  const sent: string[] = [];
  const { loop, settles } = createLoop(request, {
    plan: planFor(request, { forget: (_, { isRefused }) => void forgotten.push(isRefused) }),
    async send({ items, request: asked }) {
      sent.push(`${items.length}${asked === undefined ? "" : " and claim"}`);
      if (sent.length === 3) settles.add(heldJob(2), { kind: "snooze", delayMs: 60_000 });
      if (sent.length === 4) loop.end();
      if (asked !== undefined && sent.length !== 4)
        throw Object.assign(new Error("refused"), { code: "22023" });
      return {
        unsettled: new Map(),
        ...(asked !== undefined && { claim: claimAnswer() }),
      } as never;
    },
  });
  settles.add(heldJob(1), { kind: "snooze", delayMs: 60_000 });
  await loop.run();
  expect(sent.slice(0, 3)).toEqual(["1 and claim", "1", "0 and claim"]);
  expect(forgotten).toEqual([false, true]);
});
