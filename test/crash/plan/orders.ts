import type { Level } from "./level.js";
import { createRandom, type Random } from "./random.js";

/** What a job is made to do. */
export type OrderKind =
  /** Commits its effect together with its completion. */
  | "effect"
  /** Has no effect in the database; the worker completes it when the handler returns. */
  | "settle"
  | "delayed"
  /** Throws at its first attempts. */
  | "flaky"
  /** Kills its process at each attempt. */
  | "poison"
  /** Has an idempotency key that three producers use. */
  | "keyed"
  | "keyed-settle"
  /** Runs for three leases. */
  | "long"
  /** Blocks its process's only thread. */
  | "blocking"
  /** Never ends; its time runs out. */
  | "hanging"
  /** Ends itself with a verdict. */
  | "hopeless"
  | "snoozing"
  /** Takes its time within its commit. */
  | "slow-commit"
  /** Its first holder's words arrive while another holds it: a commit's, or those of settling. */
  | "contested"
  | "contested-settle"
  /** Enqueues another job in its commit. */
  | "parent"
  /** Works long enough for somebody to ask for its end. */
  | "unwanted"
  | "nasty";

/** One job that a producer is to enqueue. */
export interface Order {
  /** Names the job in every ledger; jobs with one key share it. */
  readonly no: number;
  readonly kind: OrderKind;
  /** When, after the start of the run. */
  readonly atMs: number;
  readonly producer: number;
  /** In a transaction with a row of the app, several at once, or by itself. */
  readonly way: "transaction" | "batch" | "now";
  /** The transaction is rolled back on purpose. */
  readonly rollsBack: boolean;
  /** How long the handler works, in milliseconds. */
  readonly workMs: number;
  /** How many attempts throw. */
  readonly fails: number;
}

/** The number of a parent's child. */
export const childOf = (no: number): number => no + 10_000_000;

/** How many of 1,000 jobs are of each kind, or where the level says it; the rest is `effect`. */
const MIX: readonly (readonly [OrderKind, number | "half of contested"])[] = [
  ["settle", 150],
  ["delayed", 100],
  ["flaky", 80],
  ["keyed", 60],
  ["keyed-settle", 10],
  ["snoozing", 20],
  ["slow-commit", 30],
  ["parent", 40],
  ["nasty", 10],
  ["hopeless", 10],
  ["long", 4],
  ["blocking", 2],
  ["hanging", 5],
  ["contested", "half of contested"],
  ["contested-settle", "half of contested"],
  // Each kills three processes; more of them would leave no time for other faults.
  ["poison", 1],
];

const EARLY: ReadonlySet<OrderKind> = new Set(["long", "blocking", "poison"]);

/** Decides what is enqueued, by whom and when: the same level and seed give the same orders. */
export function makeOrders(level: Level, seed: number): Order[] {
  if (level.name === "throughput") return alike(level);
  return level.name === "point" ? oneOfEach(level) : mixed(level, seed);
}

/** All at once at the start, so that no worker is ever idle; each takes a slot, and hardly the machine, for a while. */
const alike = ({ jobs, producers }: Level): Order[] =>
  Array.from({ length: jobs }, (_, index) => ({
    no: index + 1,
    kind: "effect",
    atMs: 0,
    producer: (index % producers) + 1,
    way: "batch",
    rollsBack: false,
    workMs: 250,
    fails: 0,
  }));

/** One job of each kind, in each of the ways to enqueue; nothing that kills its process. */
function oneOfEach({ leaseMs }: Level): Order[] {
  const kinds: readonly OrderKind[] = [
    "effect",
    "settle",
    "flaky",
    "keyed",
    "keyed",
    "keyed-settle",
    "snoozing",
    "parent",
    "hopeless",
    "long",
    "delayed",
  ];
  const ways = ["transaction", "batch", "now"] as const;
  return kinds.map((kind, index) => ({
    no: kind === "keyed" ? 4 : index + 1,
    kind,
    atMs: 0,
    producer: 1,
    way: kind === "keyed" ? "transaction" : (ways[index % ways.length] ?? "now"),
    rollsBack: false,
    workMs: kind === "long" ? leaseMs * 1.2 : 5,
    fails: kind === "flaky" ? 1 : 0,
  }));
}

function mixed(level: Level, seed: number): Order[] {
  const random = createRandom(seed ^ 0x5eed);
  const kinds = random.shuffle(kindsOf(level));
  const spanMs = level.chaosMs * 0.92;
  const turns = kinds.filter(isContested).length;
  let turnsTaken = 0;
  // One after another: where all processes contend at once, nobody is left to take over.
  const turn = (): number => Math.round(spanMs * (0.1 + (0.6 * turnsTaken++) / turns));
  return kinds
    .flatMap((kind, index): Order[] => {
      const order = makeOrder(random, level, { no: index + 1, kind, spanMs });
      if (isContested(kind)) return [{ ...order, rollsBack: false, atMs: turn() }];
      if (kind !== "keyed" && kind !== "keyed-settle") return [order];
      // Every producer enqueues it, at about the same time.
      return Array.from({ length: level.producers }, (_, producer) => ({
        ...order,
        producer: producer + 1,
        atMs: order.atMs + random.integer(0, 150),
        rollsBack: random.next() < 0.2,
      }));
    })
    .concat(unwanted(level, seed))
    .sort((a, b) => a.atMs - b.atMs);
}

/** How long such a job works: long enough that somebody asks, and that a renewal comes before its end. */
export const workOfUnwanted = (leaseMs: number): number => Math.round(leaseMs * 1.5);

/** Drawn by themselves, so that the other jobs of a seed are what they were without them. */
function unwanted(level: Level, seed: number): Order[] {
  const random = createRandom(seed ^ 0x0def5);
  const spanMs = level.chaosMs * 0.8;
  return Array.from({ length: level.unwanted }, (_, index) =>
    makeOrder(random, level, { no: level.jobs + index + 1, kind: "unwanted", spanMs }),
  );
}

const isContested = (kind: OrderKind): boolean => kind.startsWith("contested");

function kindsOf({ jobs, contested }: Level): OrderKind[] {
  const special = MIX.flatMap(([kind, share]) => {
    const length = typeof share === "number" ? Math.round((jobs * share) / 1_000) : contested / 2;
    return Array.from({ length }, () => kind);
  });
  const plain = Array.from({ length: jobs - special.length }, (): OrderKind => "effect");
  return [...special, ...plain];
}

interface OrderFacts {
  readonly no: number;
  readonly kind: OrderKind;
  readonly spanMs: number;
}

function makeOrder(random: Random, level: Level, { no, kind, spanMs }: OrderFacts): Order {
  const way = random.pick(["transaction", "transaction", "batch", "now"] as const);
  const keyed = kind === "keyed" || kind === "keyed-settle";
  return {
    no,
    kind,
    // What takes long, or keeps others from working, comes early: the run is to come to its end.
    atMs: Math.round(random.next() * spanMs * (EARLY.has(kind) ? 0.4 : 1)),
    producer: random.integer(1, level.producers),
    way: keyed ? "transaction" : way,
    rollsBack: way === "transaction" && random.next() < 0.08,
    workMs: workOf(random, level, kind),
    fails: kind === "flaky" ? random.integer(1, 4) : 0,
  };
}

function workOf(random: Random, { leaseMs }: Level, kind: OrderKind): number {
  if (kind === "long") return leaseMs * 3;
  if (kind === "unwanted") return workOfUnwanted(leaseMs);
  if (kind === "slow-commit") return Math.round(leaseMs * (0.2 + random.next() * 0.25));
  if (kind === "blocking") return Math.round(leaseMs * (0.2 + random.next()));
  return random.next() < 0.1 ? random.integer(50, 400) : random.integer(0, 20);
}
