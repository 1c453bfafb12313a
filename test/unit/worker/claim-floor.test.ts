import { expect, test } from "vitest";
import type { ClaimAnswer, ClaimedJob } from "../../../src/queries/claimed-row.js";
import { createClaimFloors } from "../../../src/worker/claim-floor.js";
import { claimAnswer, claimedJob } from "../../support/claims.js";

const SECOND_US = 1_000_000;
const NOW_US = 1_000 * SECOND_US;

function job(priority: number, atUs: number, id: number, queue = "default"): ClaimedJob {
  return claimedJob({ id, queue, priority, place: { atUs, id } });
}

/** What a claim found that looked at as many jobs as it wanted. */
function full(...jobs: ClaimedJob[]): ClaimAnswer {
  return claimAnswer({ jobs, nowUs: NOW_US, isFull: true });
}

const short = (...jobs: ClaimedJob[]): ClaimAnswer => ({ ...full(...jobs), isFull: false });

const floorOf = (floors: ReturnType<typeof createClaimFloors>, priority: number) =>
  floors.nextPairs().find((pair) => pair.priority === priority)?.floor;

test("knows nothing at first: every pair is searched from the beginning", () => {
  const pairs = createClaimFloors(["default"]).nextPairs();
  expect(pairs.map((pair) => pair.priority)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(pairs.every((pair) => pair.floor === null)).toBe(true);
});

test("a full claim of an old backlog raises the floor to the furthest job, by time and id", () => {
  const floors = createClaimFloors(["default"]);
  floors.learn(floors.nextPairs(), full(job(5, 10, 1), job(5, 10, 7)));
  expect(floorOf(floors, 5)).toEqual({ atUs: 10, id: 7 });
});

test("a floor stays a second behind the present, where transactions may still commit", () => {
  const floors = createClaimFloors(["default"]);
  floors.learn(floors.nextPairs(), full(job(5, NOW_US - 10, 3)));
  expect(floorOf(floors, 5)).toEqual({ atUs: NOW_US - SECOND_US, id: 0 });
});

test("a claim that came back short has searched every pair", () => {
  const floors = createClaimFloors(["default"]);
  floors.learn(floors.nextPairs(), short(job(5, 10, 1)));
  expect(floorOf(floors, 0)).toEqual({ atUs: NOW_US - SECOND_US, id: 0 });
  expect(floorOf(floors, 9)).toEqual({ atUs: NOW_US - SECOND_US, id: 0 });
});

test("a full claim has searched the pairs before its last one, and none after it", () => {
  const floors = createClaimFloors(["default"]);
  floors.learn(floors.nextPairs(), full(job(5, 10, 1)));
  expect(floorOf(floors, 4)).toEqual({ atUs: NOW_US - SECOND_US, id: 0 });
  expect(floorOf(floors, 6)).toBeNull();
});

test("a sweep that finds late jobs does not lower a floor", () => {
  const floors = createClaimFloors(["default"]);
  floors.learn(floors.nextPairs(), full(job(5, 500, 9)));
  floors.learn(floors.nextPairs(), full(job(5, 20, 2)));
  expect(floorOf(floors, 5)).toEqual({ atUs: 500, id: 9 });
});

test("queues of equal priority take turns, and priority goes before turn", () => {
  const floors = createClaimFloors(["a", "b"]);
  const first = floors.nextPairs();
  const second = floors.nextPairs();
  expect(first.slice(0, 2).map((pair) => pair.queue)).not.toEqual(
    second.slice(0, 2).map((pair) => pair.queue),
  );
  expect(second.map((pair) => pair.priority)).toEqual(first.map((pair) => pair.priority));
});

test("no floor rises above a job that was passed over: the next claim is to see it", () => {
  const floors = createClaimFloors(["default"]);
  const passedOver = { place: { atUs: 20, id: 7 }, priority: 5, isOnlySwept: false };
  floors.learn(floors.nextPairs(), { ...full(job(5, 10, 1), job(5, 30, 9)), passedOver });
  expect(floorOf(floors, 5)).toEqual({ atUs: 20, id: 6 });
  expect(floorOf(floors, 0)).toEqual({ atUs: 20, id: 6 });
});

test("one that is full of jobs it may not take has not searched what comes after them", () => {
  const floors = createClaimFloors(["default"]);
  floors.learn(floors.nextPairs(), full());
  expect(floors.nextPairs().every((pair) => pair.floor === null)).toBe(true);
});

test("a lost job raises no floor: others like it may lie above, and no claim but a sweep sees them", () => {
  const floors = createClaimFloors(["default"]);
  const lost = { ...job(5, 10, 1), isRecovered: true };
  floors.learn(floors.nextPairs(), { ...full(lost), hasSwept: true });
  expect([4, 5, 6].map((priority) => floorOf(floors, priority))).toEqual([
    { atUs: NOW_US - SECOND_US, id: 0 },
    null,
    null,
  ]);
  floors.learn(floors.nextPairs(), { ...full(lost, job(5, 20, 2)), hasSwept: true });
  expect(floorOf(floors, 5)).toEqual({ atUs: 20, id: 2 });
});

test("a full sweep has not searched the other queues of its last job's priority", () => {
  const floors = createClaimFloors(["a", "b"]);
  const pairs = floors.nextPairs();
  const [first, second] = pairs.filter(({ priority }) => priority === 5);
  floors.learn(pairs, { ...full(job(5, 10, 1, second?.queue)), hasSwept: true });
  const floorIn = (queue: string | undefined, priority: number) =>
    floors.nextPairs().find((pair) => pair.queue === queue && pair.priority === priority)?.floor;
  expect(floorIn(first?.queue, 5)).toBeNull();
  expect(floorIn(first?.queue, 4)).toEqual({ atUs: NOW_US - SECOND_US, id: 0 });
});

test("a sweep's suspect comes from anywhere: the priorities before it were not searched", () => {
  const floors = createClaimFloors(["default"]);
  const suspect = { ...job(7, 10, 2), expiredLeases: 2 };
  floors.learn(floors.nextPairs(), { ...full(job(2, 10, 1), suspect), hasSwept: true });
  expect(floorOf(floors, 1)).toEqual({ atUs: NOW_US - SECOND_US, id: 0 });
  expect([3, 5, 7].map((priority) => floorOf(floors, priority))).toEqual([null, null, null]);
});
