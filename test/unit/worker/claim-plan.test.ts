import { describe, expect, test } from "vitest";
import type { ClaimAnswer } from "../../../src/queries/claimed-row.js";
import { claimAnswer, claimedJob, claimRequest } from "../../support/claims.js";
import { claim, createPlan, nothing, room } from "./claim-plan-fixture.js";

describe("a plan that polls once a minute", () => {
  test("looks at everything first, and then sleeps", () => {
    const plan = createPlan();
    expect(claim(plan, 0)).toBeNull();
    expect(plan.nextMs(room)).toBeGreaterThanOrEqual(60_000);
  });

  test("looks below its floor after a wake-up, near first and then to the beginning", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.wake();
    expect(claim(plan, 5)).toBe("no sweep");
    expect(claim(plan, 6)).toBe("no sweep");
    const nearAtMs = plan.nextMs(room);
    expect(nearAtMs).toBeLessThan(200);
    expect(claim(plan, nearAtMs)).toBe(10_000);
    const farAtMs = plan.nextMs(room);
    expect(farAtMs).toBeLessThan(200);
    expect(claim(plan, Math.max(farAtMs, nearAtMs + 2))).toBeNull();
    expect(plan.nextMs(room)).toBeGreaterThanOrEqual(60_000);
  });

  test("looks to the beginning where jobs may lie anywhere, whatever a near sweep finds, and whoever wakes it meanwhile", () => {
    const plan = createPlan();
    // The first far sweep took long, and another has to rest.
    claim(plan, 0, claimAnswer({ hasSwept: true, tookMs: 20 }));
    const some = claimAnswer({ jobs: [claimedJob()], hasSwept: true });
    plan.lookFar();
    plan.wake();
    expect(claim(plan, 60, some)).toBe("no sweep");
    // Near sweeps are 50 to 60 ms apart, from the answer on.
    expect(claim(plan, 61, some)).toBe(10_000);
    plan.wake();
    const farAtMs = plan.nextMs(room);
    expect(claim(plan, 121, some)).toBe("no sweep");
    expect(claim(plan, 122, some)).toBe(10_000);
    expect(farAtMs).toBe(0);
    expect(plan.nextMs(room)).toBeLessThanOrEqual(181);
    expect(claim(plan, 181)).toBeNull();
    expect(plan.nextMs(room)).toBeGreaterThanOrEqual(60_000);
  });

  test("owes a look for a wake-up that came while a claim was under way", () => {
    const plan = createPlan();
    const request = plan.next(0, room);
    plan.wake();
    if (request !== undefined) plan.learn(request, nothing, 1);
    expect(plan.nextMs(room)).toBe(0);
    expect(claim(plan, 1)).toBe("no sweep");
    expect(plan.nextMs(room)).toBeLessThan(200);
  });

  test("looks again when a job of its own is due again", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.expect(500);
    plan.expect(Number.POSITIVE_INFINITY);
    expect(plan.nextMs(room)).toBe(500);
  });

  test("rests after a sweep by what it cost the server, not by how long its answer travelled", () => {
    const plan = createPlan();
    const request = plan.next(0, room);
    // A second in the network.
    if (request !== undefined) plan.learn(request, nothing, 1_000);
    plan.wake();
    claim(plan, 1_001);
    expect(plan.nextMs(room)).toBeLessThan(1_200);
  });
});

describe("a far sweep after one that took the server long", () => {
  const long = { ...nothing, tookMs: 30, nowUs: 100_000_000 };

  /** A plan whose far sweep has just left at 80 s, and that sweep. */
  function planWithSweep(given = room, hasOtherConnection = true) {
    const plan = createPlan(["default"], hasOtherConnection);
    claim(plan, 0, long);
    const far = plan.next(80_000, given);
    if (far === undefined) throw new Error("No sweep was due.");
    return { plan, far };
  }

  test("leaves beside other claims, for half of the free slots, and once at a time", () => {
    const { plan, far } = planWithSweep({ ...room, ahead: 9 });
    expect(far).toMatchObject({ sweep: { reachMs: null }, free: 5, ahead: 0 });
    expect(plan.isBeside(far)).toBe(true);
    for (const nowMs of [80_001, 80_002, 160_000]) {
      plan.wake();
      expect(claim(plan, nowMs)).not.toBeNull();
    }
    plan.learn(far, long, 160_010);
    expect(plan.isBeside(far)).toBe(false);
    expect(claim(plan, 240_000)).toBeNull();
  });

  test("is followed by a claim at once, and by close polls: the connection that listens is occupied", () => {
    const { plan, far } = planWithSweep();
    expect(plan.nextMs(room)).toBeLessThanOrEqual(80_000);
    claim(plan, 80_001);
    expect(plan.nextMs(room)).toBeLessThan(80_040);
    plan.learn(far, long, 80_030);
    claim(plan, 80_040);
    expect(plan.nextMs(room)).toBeGreaterThan(90_000);
  });

  test("is sent like any claim where there is no other connection, or no slot that is free", () => {
    const pooled = planWithSweep(room, false);
    expect(pooled.plan.isBeside(pooled.far)).toBe(false);
    const full = { ...room, free: 0, ahead: 9 };
    const busy = planWithSweep(full);
    expect(busy.plan.isBeside(busy.far)).toBe(false);
    expect(busy.far).toMatchObject({ free: 0, ahead: 9 });
  });

  test("is sent like any claim after one that errored: it may be the other connection that cannot be made", () => {
    const { plan, far } = planWithSweep();
    plan.forget(far, { nowMs: 80_000, isRefused: false, tookMs: 0 });
    const again = plan.next(80_100, room);
    expect(again).toMatchObject({ sweep: { reachMs: null }, free: 10 });
    expect(again && plan.isBeside(again)).toBe(false);
  });

  test("is followed by its rest at once, with all the room, where it was full of what lies below the floors", () => {
    const { plan, far } = planWithSweep();
    claim(plan, 80_001, long);
    const below = [1, 2, 3, 4, 5].map((id) => claimedJob({ id, place: { atUs: id, id } }));
    plan.learn(far, { ...long, jobs: below, isFull: true }, 80_400);
    expect(plan.nextMs(room)).toBeLessThanOrEqual(80_400);
    const next = plan.next(80_401, { ...room, ahead: 9 });
    expect(next).toMatchObject({ sweep: { reachMs: null }, free: 10, ahead: 9 });
    expect(next && plan.isBeside(next)).toBe(false);
  });

  test("rests where it was not full, whatever the other claims find", () => {
    const { plan, far } = planWithSweep();
    const backlog = [7, 8].map((id) => claimedJob({ id, place: { atUs: 99_500_000, id } }));
    claim(plan, 80_001, { ...nothing, jobs: backlog, isFull: true });
    plan.learn(far, { ...long, jobs: [claimedJob({ id: 1, place: { atUs: 1, id: 1 } })] }, 80_030);
    expect(claim(plan, 80_031, { ...nothing, jobs: backlog, isFull: true })).not.toBeNull();
  });

  test("lets nobody else take a suspect meanwhile", () => {
    const { plan, far } = planWithSweep();
    expect(far.sweep?.suspects).toBe(1);
    plan.wake();
    expect(plan.next(80_500, room)?.sweep).toMatchObject({ suspects: 0 });
  });

  test("does not settle what is owed to a wake-up that came after it had left", () => {
    const { plan, far } = planWithSweep();
    plan.wake();
    // The near sweep finds nothing, so a far one is owed, and this one left too early to be it.
    claim(plan, 80_500);
    plan.learn(far, long, 80_510);
    claim(plan, 80_600);
    // After its rest, of nine times what it took.
    expect(plan.nextMs(room)).toBe(80_510 + 270);
    expect(claim(plan, 80_780)).toBeNull();
    claim(plan, 80_782);
    expect(plan.nextMs(room)).toBeGreaterThan(90_000);
  });
});

describe("a plan of a worker that always finds more jobs than it has slots for", () => {
  const SECOND_US = 1_000_000;
  /** A job that became due so many seconds after 1970. */
  const job = (priority: number, atS: number, queue = "default") =>
    claimedJob({ priority, queue, place: { atUs: atS * SECOND_US, id: atS } });
  /** What a claim gives that had more to choose from, long after they became due or soon. */
  const full = (...jobs: ReturnType<typeof job>[]): ClaimAnswer =>
    claimAnswer({ jobs, isFull: true, nowUs: 1_000 * SECOND_US });
  const start = (): ClaimAnswer => ({ ...full(job(0, 10), job(5, 10)), nowUs: 11 * SECOND_US });

  test("goes on to look at everything until it knows a place in each queue that gives jobs", () => {
    const plan = createPlan(["default", "second"]);
    expect(claim(plan, 0, full(job(5, 10, "second")))).toBeNull();
    expect(claim(plan, 1, full(job(5, 5, "default")))).toBeNull();
    expect(claim(plan, 2, full(job(5, 11, "second")))).toBeNull();
    expect(claim(plan, 3, full(job(5, 6, "default")))).toBe("no sweep");
  });

  test("looks below the floors once a priority gives a job that no sweep has come to", () => {
    const plan = createPlan();
    claim(plan, 0, start());
    // Full of the first priority, above its floor: the sweep has not come to the others.
    expect(claim(plan, 1, full(job(0, 60)))).toBeNull();
    expect(claim(plan, 2, full(job(0, 61)))).toBe("no sweep");
    expect(claim(plan, 3, full(job(5, 51)))).toBe("no sweep");
    // After its rest.
    expect(claim(plan, 20, full(job(5, 20)))).toBeNull();
  });

  test("does not take a suspect's priority for one that was searched", () => {
    const plan = createPlan();
    claim(plan, 0, start());
    const suspect = { ...job(9, 5), expiredLeases: 2 };
    const holding = { ...room, holdsSuspect: true };
    expect(claim(plan, 1, full(job(0, 60), suspect), holding)).toBeNull();
    expect(claim(plan, 2, full(job(5, 51)), holding)).toBe("no sweep");
    expect(claim(plan, 20, full(job(5, 20)), holding)).toBeNull();
  });

  test("takes what was enqueued together with the job at its floor for below it, by number", () => {
    const plan = createPlan();
    claim(plan, 0, start());
    expect(claim(plan, 1, full(job(5, 60)))).toBeNull();
    const together = claimedJob({ place: { atUs: 60 * SECOND_US, id: 59 } });
    // All that it took lies below the floor: it goes on at once.
    expect(claim(plan, 60_002, full(together))).toBeNull();
    expect(claim(plan, 60_003, full(job(5, 61)))).toBeNull();
    expect(claim(plan, 60_004, full(job(5, 62)))).toBe("no sweep");
  });

  test("does not sweep again after a sweep that has seen all below the floors", () => {
    const plan = createPlan();
    claim(plan, 0, start());
    expect(claim(plan, 1, full(job(0, 60), job(5, 51)))).toBeNull();
    const reaches = [20, 40, 60].map((nowMs) => claim(plan, nowMs, full(job(5, nowMs + 40))));
    expect(reaches).not.toContain(null);
  });
});

describe("a sweep that the server refuses", () => {
  const refused = (nowMs: number, tookMs: number) => ({ nowMs, isRefused: true, tookMs });

  test("far: rests as if it had been answered, and plain claims and near sweeps go on", () => {
    const plan = createPlan();
    const far = plan.next(0, room);
    expect(far?.sweep?.reachMs).toBeNull();
    plan.forget(far ?? claimRequest(), refused(9_000, 9_000));
    const looks: (number | null | "no sweep")[] = [];
    for (let nowMs = 9_000; nowMs < 80_000; nowMs += 20) {
      plan.wake();
      looks.push(claim(plan, nowMs));
    }
    expect(looks).not.toContain(null);
    expect(looks).toContain("no sweep");
    expect(looks).toContain(10_000);
    expect(claim(plan, 90_100)).toBeNull();
  });

  test("far: rests though a near one passes over lost jobs meanwhile, and leaves beside after that", () => {
    const plan = createPlan();
    const far = plan.next(0, room);
    plan.forget(far ?? claimRequest(), refused(9_000, 9_000));
    const passedOver = { place: { atUs: 1, id: 1 }, priority: 5, isOnlySwept: true };
    for (const nowMs of [9_010, 10_100, 11_200]) {
      plan.wake();
      expect(claim(plan, nowMs, { ...nothing, passedOver })).toBe(10_000);
    }
    plan.wake();
    const next = plan.next(90_100, room);
    expect(next?.sweep?.reachMs).toBeNull();
    expect(next && plan.isBeside(next)).toBe(true);
  });

  test("near: rests too, by its own measure", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.wake();
    claim(plan, 5);
    claim(plan, 6);
    const nearAtMs = plan.nextMs(room);
    const near = plan.next(nearAtMs, room);
    expect(near?.sweep?.reachMs).toBe(10_000);
    plan.forget(near ?? claimRequest(), refused(nearAtMs + 5, 5));
    expect(claim(plan, nearAtMs + 100)).not.toBe(10_000);
  });

  test("is looked for again at once where the server was not heard", () => {
    const plan = createPlan();
    const far = plan.next(0, room);
    plan.forget(far ?? claimRequest(), { nowMs: 5, isRefused: false, tookMs: 0 });
    expect(claim(plan, 10)).toBeNull();
  });
});

describe("a due job that needs a free slot and got none", () => {
  const left = claimAnswer({ hasSwept: true, leavesDue: true });
  const full = { ...room, free: 0, ahead: 20 };

  test("is claimed as soon as a slot is free, not at the next poll", () => {
    const plan = createPlan();
    claim(plan, 0);
    plan.wake();
    claim(plan, 5, left, full);
    expect(plan.nextMs(full)).toBeGreaterThan(0);
    expect(plan.nextMs(room)).toBe(0);
    claim(plan, 6, nothing);
    expect(plan.nextMs(room)).toBeGreaterThan(0);
  });

  test("is told of by its priority once it has waited for long; the most urgent one counts", () => {
    const plan = createPlan();
    expect(plan.yieldsTo()).toBeUndefined();
    const passed = (priority: number, isOnlySwept: boolean) =>
      claimAnswer({
        hasSwept: true,
        passedOver: { place: { atUs: 1, id: 1 }, priority, isOnlySwept },
      });
    claim(plan, 0, passed(7, true), full);
    expect(plan.yieldsTo()).toBe(7);
    plan.wake();
    const plain = plan.next(1, full);
    expect(plain?.sweep).toBeUndefined();
    plan.learn(plain ?? claimRequest(), passed(3, false), 2);
    expect(plan.yieldsTo()).toBe(3);
  });
});
