import fc from "fast-check";
import type { ModelEnd } from "./model.js";

/** A job to enqueue. */
export interface Item {
  readonly key: string | null;
  readonly input: number;
  readonly maxAttempts: number;
  readonly delayMs: number;
}

/** How many jobs are asked for, and whether those are too that others have lost. */
export interface Claim {
  readonly free: number;
  readonly ahead: number;
  readonly sweeps: boolean;
  readonly suspects: 0 | 1;
  readonly isPrompt: boolean;
}

/** One thing that somebody does to the queue. Holds are picked by their place among those handed out. */
export type Command =
  | { readonly what: "enqueue"; readonly item: Item }
  | { readonly what: "enqueueMany"; readonly items: readonly Item[] }
  | { readonly what: "claim"; readonly claim: Claim }
  | { readonly what: "renew"; readonly hold: number }
  | { readonly what: "settle"; readonly hold: number; readonly end: ModelEnd }
  /** Both in one statement, as a busy worker does. */
  | {
      readonly what: "settleAndClaim";
      readonly hold: number;
      readonly end: ModelEnd;
      readonly claim: Claim;
    }
  | { readonly what: "commit"; readonly hold: number }
  /** An operator cancels a job, or queues it again, picked by its place among all. */
  | { readonly what: "cancel"; readonly job: number }
  | { readonly what: "requeue"; readonly job: number }
  /** The same by SQL: asks for the end of a job, picked among those that are open. */
  | { readonly what: "cancelByHand"; readonly job: number }
  | { readonly what: "advance"; readonly ms: number };

const what = <W extends Command["what"]>(name: W) => fc.constant(name);

const hold = fc.nat({ max: 20 });

const job = fc.nat({ max: 20 });

const end = fc.constantFrom<ModelEnd>("complete", "remove", "retry", "release", "fail", "cancel");

const item: fc.Arbitrary<Item> = fc.record({
  key: fc.option(fc.constantFrom("a", "b", "c"), { freq: 2 }),
  input: fc.constantFrom(1, 1, 1, 2),
  maxAttempts: fc.integer({ min: 1, max: 4 }),
  delayMs: fc.constantFrom(0, 0, 0, 30_000, 90_000),
});

const items = fc.array(item, { minLength: 1, maxLength: 4 });

/** As a worker asks: for something, and for a suspect only if a slot stands free for it. */
const claim: fc.Arbitrary<Claim> = fc
  .record({
    free: fc.integer({ min: 0, max: 3 }),
    ahead: fc.integer({ min: 0, max: 3 }),
    sweeps: fc.constantFrom(true, true, false),
    suspects: fc.constantFrom(1 as const, 1 as const, 0 as const),
    isPrompt: fc.boolean(),
  })
  .filter(({ free, ahead }) => free + ahead > 0)
  .map(({ isPrompt, ...asked }) =>
    isPrompt && asked.free > 0
      ? { ...asked, isPrompt, ahead: 0, sweeps: false, suspects: 0 as const }
      : { ...asked, isPrompt: false, suspects: asked.free === 0 ? 0 : asked.suspects },
  );

/** Less and more than a lease. No sum of them is a delay: real time passes too. */
const ms = fc.constantFrom(20_000, 40_000, 80_000);

/** Lists of commands; a failing one is shrunk to what is needed. */
export const commandLists = (maxLength: number): fc.Arbitrary<Command[]> =>
  fc.array(
    fc.oneof(
      { weight: 4, arbitrary: fc.record({ what: what("enqueue"), item }) },
      { weight: 1, arbitrary: fc.record({ what: what("enqueueMany"), items }) },
      { weight: 4, arbitrary: fc.record({ what: what("claim"), claim }) },
      { weight: 2, arbitrary: fc.record({ what: what("renew"), hold }) },
      { weight: 2, arbitrary: fc.record({ what: what("settle"), hold, end }) },
      { weight: 2, arbitrary: fc.record({ what: what("settleAndClaim"), hold, end, claim }) },
      { weight: 2, arbitrary: fc.record({ what: what("commit"), hold }) },
      { weight: 1, arbitrary: fc.record({ what: what("cancel"), job }) },
      { weight: 1, arbitrary: fc.record({ what: what("requeue"), job }) },
      { weight: 1, arbitrary: fc.record({ what: what("cancelByHand"), job }) },
      { weight: 3, arbitrary: fc.record({ what: what("advance"), ms }) },
    ),
    { maxLength, size: "max" },
  );
