import { jittered, monotonicMs } from "./clock.js";

/** How long to wait after errors: ever longer, until something works. */
export interface RetryPause {
  /** One more error; tells how long the pause is that begins now, in milliseconds. */
  errored(): number;
  succeeded(): void;
  /** When the last pause ends, on the local clock; 0 before the first. */
  untilMs(): number;
}

/** Creates pauses that begin with `firstMs` and double up to `maxMs`, jittered. */
export function createRetryPause(options: {
  readonly firstMs: number;
  readonly maxMs: number;
}): RetryPause {
  const { firstMs, maxMs } = options;
  let nextMs = firstMs;
  let untilMs = 0;
  return {
    errored() {
      const pauseMs = jittered(nextMs);
      nextMs = Math.min(maxMs, nextMs * 2);
      untilMs = monotonicMs() + pauseMs;
      return pauseMs;
    },
    succeeded() {
      nextMs = firstMs;
    },
    untilMs: () => untilMs,
  };
}
