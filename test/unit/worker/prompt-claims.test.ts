import { describe, expect, test } from "vitest";
import { claimAnswer, claimedJob } from "../../support/claims.js";
import { claim, createPlan, nothing, room } from "./claim-plan-fixture.js";

describe("a plan that is woken while it is idle", () => {
  test("after a wake-up claims promptly, for free slots only, and sweeps behind it", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.wake();
    const prompt = plan.next(61, { ...room, ahead: 4 });
    expect(prompt).toMatchObject({ isPrompt: true, sweep: undefined, free: 10, ahead: 0 });
    if (prompt) plan.learn(prompt, claimAnswer({ jobs: [claimedJob()] }), 62);
    expect(plan.nextMs(room)).toBeLessThanOrEqual(62);
    expect(plan.next(62, room)).toMatchObject({
      isPrompt: false,
      sweep: { reachMs: 10_000 },
    });
  });

  test("looks no further than near where a prompt claim has found what woke it", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.wake();
    claim(plan, 61, claimAnswer({ jobs: [claimedJob()] }));
    expect(claim(plan, 62)).toBe(10_000);
    expect(plan.nextMs(room)).toBeGreaterThanOrEqual(60_000);
  });

  test("looks to the beginning where the prompt claim found a job before another wake-up came", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.wake();
    const prompt = plan.next(61, room);
    plan.wake();
    if (prompt) plan.learn(prompt, claimAnswer({ jobs: [claimedJob()] }), 62);
    expect(claim(plan, 62)).toBe(10_000);
    expect(plan.nextMs(room)).toBeLessThan(200);
  });

  test.each([
    ["no slot is free", { ...room, free: 0, ahead: 4 }, 5, {}],
    ["its poll is due", room, 90_000, {}],
    ["there is a backlog", room, 5, { jobs: [claimedJob()], isFull: true }],
    ["jobs are known to wait for a slot", room, 5, { leavesDue: true }],
  ])("claims nothing promptly where %s", (_, given, nowMs, answer) => {
    const plan = createPlan();
    claim(plan, 0, claimAnswer(answer));
    plan.wake();
    expect(plan.next(nowMs, given)).toMatchObject({ isPrompt: false });
  });

  test.each([
    ["polls follow each other closely", { pollsClosely: () => true }],
    ["a queue is paused: it would not tell of the end of that", { hasPausedQueues: () => true }],
  ])("claims nothing promptly where %s", (_, change) => {
    const plan = createPlan(["default"], true, change);
    claim(plan, 0);
    plan.wake();
    expect(plan.next(5, room)).toMatchObject({ isPrompt: false });
  });

  test("is not prompt where nobody tells of a job", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.look();
    expect(plan.next(5, room)).toMatchObject({ isPrompt: false });
  });

  test("makes no second prompt claim before another has told what it left, whoever wakes it", () => {
    const plan = createPlan();
    claim(plan, 0);
    const kinds: (boolean | undefined)[] = [];
    for (let nowMs = 100; nowMs < 106; nowMs += 1) {
      plan.wake();
      const request = plan.next(nowMs, room);
      kinds.push(request?.isPrompt);
      plan.wake();
      if (request) plan.learn(request, nothing, nowMs);
    }
    expect(kinds).toEqual([true, false, true, false, true, false]);
  });

  test("looks to the beginning where wake-ups spoke of more jobs than were found", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.wake();
    plan.wake();
    claim(plan, 61, claimAnswer({ jobs: [claimedJob()] }));
    expect(claim(plan, 62)).toBe(10_000);
    expect(plan.nextMs(room)).toBeLessThan(200);
    expect(claim(plan, 200)).toBeNull();
    plan.wake();
    claim(plan, 300, claimAnswer({ jobs: [claimedJob()] }));
    expect(claim(plan, 301)).toBe(10_000);
    expect(plan.nextMs(room)).toBeGreaterThanOrEqual(60_000);
  });

  test("a prompt claim that comes back full is followed by another claim at once", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.wake();
    claim(plan, 5, claimAnswer({ jobs: [claimedJob()], isFull: true }));
    expect(plan.nextMs(room)).toBe(0);
    expect(plan.next(6, room)).toMatchObject({ isPrompt: false, hasBacklog: true });
  });
});
