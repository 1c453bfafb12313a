/** Sizes how many jobs are fetched beyond the free slots, from how long handlers take. */
export interface LookAhead {
  /** Tells how long a handler took and how large its payload was. */
  observe(durationMs: number, payloadLength: number): void;
  /** How many jobs to hold beyond the slots. */
  size(): number;
}

/** Fetch what this long will use up, in milliseconds: enough to hide a statement, too little to hoard. */
const REACH_MS = 50;
/** Never more than this share of a lease, so that a waiting job cannot outlive its lease. */
const LEASE_SHARE = 0.1;
/** Twice what a claim fetches well, since the next one leaves when half of it has started; more drains no faster (ADR 0011). */
const MAX_JOBS = 800;
/** How much payload text may wait, in characters. */
const MAX_PAYLOAD_LENGTH = 4_000_000;
/**
 * What handlers are taken to last before any was seen, in milliseconds. The first to end are
 * the shortest; trusting them would hoard jobs that turn out long.
 */
const FIRST_GUESS_MS = 1_000;
/** The weight of the newest observation. */
const WEIGHT = 0.1;

/** Creates a look-ahead of zero that grows as handlers prove to be short. */
export function createLookAhead(options: {
  readonly concurrency: number;
  readonly shortestLeaseMs: number;
}): LookAhead {
  const reachMs = Math.min(REACH_MS, options.shortestLeaseMs * LEASE_SHARE);
  let meanMs = FIRST_GUESS_MS;
  let meanLength: number | undefined;
  return {
    observe(durationMs, payloadLength) {
      // A longer one counts at once: a queue that turns slow must not keep what it cannot start.
      meanMs += (durationMs - meanMs) * (durationMs > 4 * meanMs ? 0.5 : WEIGHT);
      meanLength ??= payloadLength;
      meanLength += (payloadLength - meanLength) * WEIGHT;
    },
    size() {
      // Nothing was seen yet.
      if (meanLength === undefined) return 0;
      const byTime = (options.concurrency * reachMs) / Math.max(meanMs, 0.01);
      const byLength = MAX_PAYLOAD_LENGTH / Math.max(meanLength, 1);
      return Math.floor(Math.min(byTime, byLength, MAX_JOBS));
    },
  };
}
