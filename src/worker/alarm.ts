import { after } from "./clock.js";

/** Lets one loop sleep until a time, or until somebody rings. */
export interface Alarm {
  /** Ends the present sleep, or the next one at once. */
  ring(): void;
  /** Resolves after `delayMs` or at a ring, whichever comes first. */
  sleep(delayMs: number): Promise<void>;
}

/** Creates an alarm for one sleeper. */
export function createAlarm(): Alarm {
  let hasRung = false;
  let wake: (() => void) | undefined;
  return {
    ring() {
      hasRung = true;
      wake?.();
    },
    sleep(delayMs) {
      return new Promise((resolve) => {
        const end = (): void => {
          callOff();
          wake = undefined;
          hasRung = false;
          // A turn of the event loop: what becomes ready now joins what is about to be sent.
          setImmediate(resolve);
        };
        let callOff = (): void => {};
        if (hasRung || delayMs <= 0) return end();
        if (delayMs !== Number.POSITIVE_INFINITY) callOff = after(delayMs, end);
        wake = end;
      });
    },
  };
}
