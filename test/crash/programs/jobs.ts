import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { z } from "zod";
import type { Level } from "../plan/level.js";
import type { OrderKind } from "../plan/orders.js";
import { MARKER } from "./surroundings.js";

/** Enough that nothing but its own doing makes a job fail: in T2, one of four leases lost it a hundred times. */
const PLENTY = 1_000;

/** Texts that have broken other queues; each job carries one and its handler compares. */
export const NASTY: readonly string[] = [
  "'; drop table public.queue_jobs; --",
  '{"a":"\\u0041","b":[1,2]}',
  "$1 $2 {jobs} \\ \" ' `",
  "Zoë 日本語 🦀 \u{1F468}‍\u{1F469}‍\u{1F467}",
  "\t\r\n\v",
  "__proto__",
  "a".repeat(4_000),
];

const payload = z.object({
  no: z.number().int(),
  kind: z.string().transform((kind) => kind as OrderKind),
  workMs: z.number(),
  fails: z.number(),
  text: z.string(),
  marker: z.literal(MARKER).default(MARKER),
});

/** The jobs of the fleet: one kind each, with the settings that its promise needs. */
export function createCrashQueue({ leaseMs }: Pick<Level, "leaseMs">) {
  const usual = {
    payload,
    leaseMs,
    timeoutMs: leaseMs * 10,
    maxAttempts: PLENTY,
    backoff: fixed({ delayMs: 200, jitter: 0.5 }),
  };
  const key = ({ no }: { readonly no: number }): string => `key-${no}`;
  const jobs = defineJobs({
    effect: defineJob(usual),
    delayed: defineJob(usual),
    flaky: defineJob({ ...usual, queue: "second" }),
    long: defineJob(usual),
    blocking: defineJob(usual),
    snoozing: defineJob({ ...usual, queue: "second" }),
    "slow-commit": defineJob(usual),
    // First of all: whoever takes them over has to do so at once.
    contested: defineJob({ ...usual, priority: 0 }),
    "contested-settle": defineJob({ ...usual, priority: 0 }),
    // Early: somebody is to ask for their end while they run.
    unwanted: defineJob({ ...usual, priority: 0 }),
    parent: defineJob({ ...usual, priority: 3 }),
    nasty: defineJob(usual),
    keyed: defineJob({ ...usual, idempotencyKey: key }),
    "keyed-settle": defineJob({ ...usual, idempotencyKey: key }),
    settle: defineJob({ ...usual, result: z.object({ no: z.number() }) }),
    hopeless: defineJob(usual),
    hanging: defineJob({ ...usual, timeoutMs: 700, maxAttempts: 2 }),
    poison: defineJob({ ...usual, maxAttempts: 3 }),
  });
  return createQueue({ jobs });
}

/** The queue that the fleet shares. */
export type CrashQueue = ReturnType<typeof createCrashQueue>;
