import { expect } from "vitest";
import type { Claim } from "./commands.js";
import type { ModelJob, QueueModel } from "./model.js";

/**
 * Checks which of the jobs that were to be had a claim took. How it mixes those
 * that need a slot with those that may wait is its own affair, within these rules.
 *
 * @param claimable In the order in which they are to be taken.
 */
export function expectRightChoice(
  model: QueueModel,
  { free, ahead, sweeps }: Claim,
  claimable: readonly ModelJob[],
  taken: readonly ModelJob[],
): void {
  expect(taken.length, "taken: no more than there is room for").toBeLessThanOrEqual(free + ahead);
  const needsSlot = (job: ModelJob): boolean => model.needsSlot(job, sweeps);
  const needing = taken.filter(needsSlot);
  expect(needing.length, "taken: no more than slots of what needs one").toBeLessThanOrEqual(free);
  const suspects = taken.filter((job) => model.isSuspect(job));
  expect(suspects.length, "taken: one suspect at a time").toBeLessThanOrEqual(1);
  const left = claimable.filter((job) => !taken.includes(job) && !model.isSuspect(job));
  if (taken.length < free) expect(left, "left behind though slots are free").toEqual([]);
  for (const kind of kindsOf(model, needsSlot)) {
    const ofKind = claimable.filter(kind);
    const takenOfKind = ofKind.filter((job) => taken.includes(job));
    expect(takenOfKind, "taken: the oldest of a kind first").toEqual(
      ofKind.slice(0, takenOfKind.length),
    );
  }
}

/** Within each of these the order decides alone. */
const kindsOf = (
  model: QueueModel,
  needsSlot: (job: ModelJob) => boolean,
): ((job: ModelJob) => boolean)[] => [
  (job) => model.isSuspect(job),
  (job) => !model.isSuspect(job) && needsSlot(job),
  (job) => !model.isSuspect(job) && !needsSlot(job),
];
