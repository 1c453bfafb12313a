import { monotonicMs } from "./clock.js";

/** Watches how often jobs arrive, to choose between being notified and polling. */
export interface Arrivals {
  /** Tells that jobs were claimed. */
  observe(count: number): void;
  /** Whether polling is cheaper than a notification for each commit. */
  isFrequent(): boolean;
}

/** From this many jobs a second on, arrivals are frequent. */
const FREQUENT_PER_SECOND = 20;
/** Below this many they are rare again; between the two nothing changes. */
const RARE_PER_SECOND = 10;
const SECOND_MS = 1_000;
/** After so many seconds without a job nothing is left of the mean. */
const MEMORY_SECONDS = 10;

/** Starts with rare arrivals. */
export function createArrivals(now: () => number = monotonicMs): Arrivals {
  let secondEndsMs = now() + SECOND_MS;
  let count = 0;
  let perSecond = 0;
  let isFrequent = false;

  /** Closes the seconds that have passed. */
  const roll = (): void => {
    const passed = Math.ceil((now() - secondEndsMs) / SECOND_MS);
    for (let second = 0; second < Math.min(passed, MEMORY_SECONDS); second += 1) {
      perSecond = (perSecond + count) / 2;
      count = 0;
      if (perSecond > FREQUENT_PER_SECOND) isFrequent = true;
      if (perSecond < RARE_PER_SECOND) isFrequent = false;
    }
    if (passed > 0) secondEndsMs += passed * SECOND_MS;
  };

  return {
    observe(jobs) {
      roll();
      count += jobs;
    },
    isFrequent() {
      roll();
      return isFrequent;
    },
  };
}
