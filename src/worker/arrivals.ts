/** Watches how often jobs arrive, to choose between being notified and polling. */
export interface Arrivals {
  /** Tells that jobs were claimed. */
  observe(count: number): void;
  /** Closes a second's count. */
  closeSecond(): void;
  /** Whether polling is cheaper than a notification for each commit. */
  isFrequent(): boolean;
}

/** From this many jobs a second on, arrivals are frequent. */
const FREQUENT_PER_SECOND = 20;
/** Below this many they are rare again; between the two nothing changes. */
const RARE_PER_SECOND = 10;

/** Starts with rare arrivals. */
export function createArrivals(): Arrivals {
  let count = 0;
  let perSecond = 0;
  let isFrequent = false;
  return {
    observe(jobs) {
      count += jobs;
    },
    closeSecond() {
      perSecond = (perSecond + count) / 2;
      count = 0;
      if (perSecond > FREQUENT_PER_SECOND) isFrequent = true;
      if (perSecond < RARE_PER_SECOND) isFrequent = false;
    },
    isFrequent: () => isFrequent,
  };
}
