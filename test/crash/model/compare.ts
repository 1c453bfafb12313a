import { expect } from "vitest";
import type { ClaimAnswer, ClaimedJob } from "../../../src/queries/claimed-row.js";
import { expectRightChoice } from "./choice.js";
import type { Claim, Command, Item } from "./commands.js";
import { type ModelClaim, type ModelHold, type ModelJob, QueueModel } from "./model.js";
import type { EnqueueAnswer, RealQueue } from "./real-queue.js";

/** Model and queue, and who holds what in both. */
interface Both {
  readonly model: QueueModel;
  readonly real: RealQueue;
  readonly holds: ModelHold[];
}

/** Carries out commands on model and queue, and compares after each what was said and what is stored. */
export async function compare(real: RealQueue, commands: readonly Command[]): Promise<void> {
  await real.clear();
  const both: Both = { model: new QueueModel(), real, holds: [] };
  for (const command of commands) {
    both.model.tick(command.what === "advance" ? command.ms : 0);
    await carryOut(command, both);
    expect(await real.stored()).toEqual(storedIn(both.model));
  }
}

async function carryOut(command: Command, both: Both): Promise<void> {
  if ("hold" in command) return withHold(command, both);
  const { model, real } = both;
  switch (command.what) {
    case "advance":
      return real.advance(command.ms);
    case "enqueue":
      return enqueue(both, [command.item], await real.enqueue(command.item));
    case "enqueueMany":
      return enqueue(both, command.items, await real.enqueueMany(command.items));
    case "claim": {
      const { claim } = await real.turn(undefined, command.claim);
      return learn(both, command.claim, model.claimable(command.claim), claim);
    }
    case "cancel": {
      const id = model.idAt(command.job);
      return expect(await real.cancel(id), "cancelled").toBe(model.cancel(id));
    }
    case "requeue": {
      const id = model.idAt(command.job);
      return expect(await real.requeue(id), "requeued").toBe(model.requeue(id));
    }
    case "cancelByHand": {
      const id = model.cancelByHand(command.job);
      return id === undefined ? undefined : real.cancelByHand(id);
    }
  }
}

/** What only a holder does, or somebody who takes himself for one. */
async function withHold(
  command: Extract<Command, { readonly hold: number }>,
  both: Both,
): Promise<void> {
  const { model, real, holds } = both;
  const hold = holds[command.hold % Math.max(1, holds.length)];
  if (hold === undefined) return;
  switch (command.what) {
    case "renew":
      return expect(await real.renew(hold), "renewed").toBe(model.renew(hold));
    case "commit":
      return expect(await real.commit(hold), "committed").toBe(model.commit(hold));
    case "settle": {
      const { unsettled } = await real.turn({ hold, end: command.end }, undefined);
      return expect(unsettled, "unsettled").toBe(model.settle(hold, command.end));
    }
    case "settleAndClaim": {
      const { unsettled, claim } = await real.turn({ hold, end: command.end }, command.claim);
      // What is settled in a statement is not to be had in it yet.
      const claimable = model.claimable(command.claim);
      expect(unsettled, "unsettled").toBe(model.settle(hold, command.end));
      return learn(both, command.claim, claimable, claim);
    }
  }
}

/** All are new or known, in their order; or there is a conflict, and none is. */
function enqueue({ model }: Both, items: readonly Item[], answer: EnqueueAnswer): void {
  const inputs = new Map<string, number>();
  const isConflict = items.some((item) => {
    const first = item.key === null ? item.input : (inputs.get(item.key) ?? item.input);
    if (item.key !== null) inputs.set(item.key, first);
    return first !== item.input || model.enqueue(item) === "conflict";
  });
  if (isConflict || answer === "conflict")
    return expect(answer).toBe(isConflict ? "conflict" : "no conflict");
  expect(answer).toHaveLength(items.length);
  for (const [place, item] of items.entries()) {
    const expected = model.enqueue(item);
    const { id, created } = answer[place] ?? { id: 0, created: false };
    expect({ id, created }).toEqual({
      id: expected === "new" ? id : expected,
      created: expected === "new",
    });
    if (created) model.add(id, item);
  }
}

/** Does to the model what a claim did, once it is known that it might. */
function learn(
  { model, holds }: Both,
  claim: Claim,
  claimable: readonly ModelJob[],
  answer: ClaimAnswer | undefined,
): void {
  if (answer === undefined) throw new Error("A claim was asked for and not answered.");
  const { jobs, ended } = answer;
  const ids = new Set([...jobs, ...ended].map(({ id }) => id));
  const taken = claimable.filter(({ id }) => ids.has(id));
  expect(taken, "jobs that were to be had").toHaveLength(jobs.length + ended.length);
  expectRightChoice(model, claim, claimable, taken);
  const told = ({ id, leaseVersion }: ClaimedJob, status: ModelClaim["status"]): ModelClaim => ({
    id,
    version: leaseVersion,
    status,
  });
  const byId = (a: ModelClaim, b: ModelClaim): number => a.id - b.id;
  const all = [
    ...jobs.map((job) => told(job, "running")),
    ...ended.map((job) => told(job, job.outcome)),
  ];
  expect(all.sort(byId)).toEqual(taken.map((job) => model.claim(job)).sort(byId));
  holds.push(...jobs.map(({ id, leaseVersion }) => ({ jobId: id, version: leaseVersion })));
}

const storedIn = ({ jobs, processed }: QueueModel) => ({
  jobs: [...jobs.values()]
    .sort((a, b) => a.id - b.id)
    .map(({ id, status, attempts, version, expired, leaseMs }) => ({
      id,
      status,
      attempts,
      version,
      expired,
      leased: leaseMs !== null,
    })),
  keys: [...processed]
    .map(([key, { id }]) => ({ key, id }))
    .sort((a, b) => (a.key < b.key ? -1 : 1)),
});
