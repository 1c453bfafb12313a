import type { ClaimLoop } from "./claim-loop.js";
import { after, monotonicMs } from "./clock.js";
import type { Holdings } from "./holdings.js";
import type { LeaseKeeper } from "./lease-keeper.js";

/** What became of the jobs that a worker held when it was stopped. */
export interface StopReport {
  /** Jobs that were given back unstarted, their attempt with them. */
  readonly released: number;
  /** Jobs whose handler was still running; others take them once their lease has run out. */
  readonly abandoned: readonly number[];
}

export interface StopOptions {
  readonly holdings: Holdings;
  readonly loop: ClaimLoop;
  /** Resolves when the loop has ended; undefined if it never began. */
  readonly loopEnded: Promise<void> | undefined;
  readonly keeper: LeaseKeeper;
  readonly close: (timeoutMs: number) => Promise<void>;
  readonly gracePeriodMs: number;
}

/** What handlers get to end after their abort, in milliseconds. */
export const ABORT_MS = 1_000;
/** What the last outcomes get to be written after that, in milliseconds. */
const SETTLE_MS = 500;
/** What the connections get to end in good order, in milliseconds. */
const CLOSE_MS = 400;

/**
 * Stops in this order: no new claims, unstarted jobs back, handlers end or are
 * aborted, outcomes written, and only then leases and connections given up.
 * Each step has its bound, so that a dead connection cannot hold it.
 */
export async function stopRun(options: StopOptions): Promise<StopReport> {
  const { holdings, loop, loopEnded, keeper } = options;
  const untilMs = monotonicMs() + options.gracePeriodMs;
  holdings.close();
  await within(options.gracePeriodMs, holdings.idle());
  if (holdings.running().length > 0) {
    holdings.abortAll();
    await within(ABORT_MS, holdings.idle());
  }
  const abandoned = holdings.running().map(({ job }) => job.id);
  loop.finish();
  await within(Math.max(0, untilMs - monotonicMs()) + SETTLE_MS, loopEnded ?? Promise.resolve());
  loop.end();
  keeper.stop();
  await within(CLOSE_MS * 1.25, options.close(CLOSE_MS));
  return { released: holdings.released(), abandoned };
}

/** Waits for `promise`, but not longer than `timeoutMs`. */
async function within(timeoutMs: number, promise: Promise<void>): Promise<void> {
  let callOff = (): void => {};
  const timeout = new Promise<void>((resolve) => {
    callOff = after(timeoutMs, resolve);
  });
  await Promise.race([promise, timeout]);
  callOff();
}
