import type { Entry, Semantics } from "./contender.js";

const OURS: Omit<Semantics, "doneRows"> = {
  fenced: "yes, by lease version",
  recovery: "lease of 30 s, renewed; the claim recovers",
  enqueueInCallersTransaction: "yes, Drizzle's",
  typedPayload: "yes, by name, checked at both ends",
};
const GRAPHILE: Semantics = {
  fenced: "no",
  doneRows: "deleted",
  recovery: "lock of 4 hours",
  enqueueInCallersTransaction: "by SQL function only",
  typedPayload: "by a global interface, not checked",
};
const PG_BOSS: Semantics = {
  fenced: "by id and retry count",
  doneRows: "kept",
  recovery: "expires after 15 minutes; heartbeat on request",
  enqueueInCallersTransaction: "yes, by an adapter",
  typedPayload: "no",
};
const BULLMQ: Semantics = {
  fenced: "yes, by lock token",
  doneRows: "kept",
  recovery: "lock of 30 s, renewed; a stalled check",
  enqueueInCallersTransaction: "no",
  typedPayload: "by a generic, not checked",
};

const postgres = (entry: Omit<Entry, "database">): Entry => ({ ...entry, database: "postgresql" });
const ours = (name: string, settings: Entry["settings"], module = "contenders/drizzle-queue.ts") =>
  postgres({
    name,
    module,
    family: settings["extras"] === true ? "ours_extras" : "ours",
    settings,
    semantics: { ...OURS, doneRows: settings["done"] === 0 ? "deleted" : "kept" },
  });

/** Every line of the drain tables. Concurrency is given to all alike; `settings` is what else is set. */
export const ENTRIES: readonly Entry[] = [
  ours("drizzle-queue, done: 0", { done: 0 }),
  ours("drizzle-queue, done: 0, optional SQL", { done: 0, extras: true }),
  ours("drizzle-queue, rows kept (default)", {}),
  ours("drizzle-queue, rows kept, optional SQL", { extras: true }),
  ours("ceiling, done: 0", { done: 0 }, "contenders/ceiling.ts"),
  ours("ceiling, done: 0, optional SQL", { done: 0, extras: true }, "contenders/ceiling.ts"),
  ours("ceiling, rows kept", {}, "contenders/ceiling.ts"),
  postgres({
    name: "graphile-worker, best-tuned",
    module: "peers/graphile-worker.js",
    family: "graphile",
    settings: { localQueueSize: 500, completeJobBatchDelay: 0 },
    semantics: GRAPHILE,
  }),
  postgres({
    name: "graphile-worker, default",
    isSlow: true,
    module: "peers/graphile-worker.js",
    family: "graphile",
    settings: {},
    semantics: GRAPHILE,
  }),
  postgres({
    name: "pg-boss, batch 500 × 4, burst",
    module: "peers/pg-boss.js",
    family: "pg_boss",
    settings: { work: { batchSize: 500, localConcurrency: 4, burstWhenBatchFull: true } },
    semantics: PG_BOSS,
  }),
  postgres({
    name: "pg-boss, default",
    isSlow: true,
    module: "peers/pg-boss.js",
    family: "pg_boss",
    settings: {},
    semantics: PG_BOSS,
  }),
  postgres({
    name: "BullMQ on PostgreSQL",
    isSlow: true,
    module: "peers/bullmq.js",
    family: "bullmq",
    settings: {},
    semantics: BULLMQ,
  }),
];

/** Measured where a Redis server is installed. */
export const REDIS_ENTRY: Entry = {
  name: "BullMQ on Redis",
  isSlow: true,
  module: "peers/bullmq.js",
  family: "bullmq_redis",
  settings: {},
  database: "redis",
  semantics: BULLMQ,
};
