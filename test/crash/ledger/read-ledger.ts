import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { StruckFault } from "../fleet/nemesis.js";
import type { IdleWorker } from "../fleet/watch-idle.js";
import type { Level } from "../plan/level.js";
import { makeOrders, type Order } from "../plan/orders.js";
import type {
  AckEntry,
  AttemptEntry,
  AuditEntry,
  EffectEntry,
  FinalState,
  FleetEntry,
  JobRow,
  OrderRow,
} from "./entries.js";
import { readJournal } from "./journal.js";

/** What a run was, for whoever judges it. */
export interface RunFacts {
  readonly level: Level;
  readonly seed: number;
  /** Milliseconds since 1970. */
  readonly startedAtMs: number;
  readonly healedAtMs: number;
  readonly drainedAtMs: number | null;
  readonly struck: readonly StruckFault[];
  /** When the server took connections again after each of its restarts. */
  readonly restartedAtMs: readonly number[];
  /** How long ago each worker that is up at the end has last asked for jobs. */
  readonly rollCall: readonly { readonly slot: string; readonly silentMs: number }[];
  /** What each worker that is up at the end sends while there is nothing to do. */
  readonly idle: readonly IdleWorker[];
}

/** Every ledger of a run. */
export interface Ledger {
  readonly facts: RunFacts;
  readonly orders: ReadonlyMap<number, Order>;
  readonly acks: readonly AckEntry[];
  readonly attempts: readonly AttemptEntry[];
  readonly fleet: readonly FleetEntry[];
  readonly audit: readonly AuditEntry[];
  readonly effects: readonly EffectEntry[];
  readonly outside: readonly EffectEntry[];
  readonly jobs: readonly JobRow[];
  readonly orderRows: readonly OrderRow[];
  readonly final: FinalState;
  readonly folder: string;
}

/** Reads the ledgers that a run left in a folder. */
export function readLedger(folder: string): Ledger {
  const one = <T>(name: string): T[] => readJournal<T>(join(folder, name));
  const all = <T>(prefix: string): T[] =>
    readdirSync(folder)
      .filter((name) => name.startsWith(prefix) && name.endsWith(".jsonl"))
      .flatMap((name) => one<T>(name));
  const [facts] = one<RunFacts>("run.jsonl");
  const [final] = one<FinalState>("final.jsonl");
  if (facts === undefined || final === undefined)
    throw new Error(`${folder} does not hold the ledgers of a run that came to its end.`);
  return {
    facts,
    orders: new Map(makeOrders(facts.level, facts.seed).map((order) => [order.no, order])),
    acks: all<AckEntry>("acked-"),
    attempts: all<AttemptEntry>("attempts-"),
    fleet: one<FleetEntry>("fleet.jsonl"),
    audit: one<AuditEntry>("audit.jsonl"),
    effects: one<EffectEntry>("effects.jsonl"),
    outside: one<EffectEntry>("outside.jsonl"),
    jobs: one<JobRow>("jobs.jsonl"),
    orderRows: one<OrderRow>("orders.jsonl"),
    final,
    folder,
  };
}
