import { QueueError } from "../errors.js";

/**
 * Refuses timers that somebody has to wind on by hand: whatever waits for them would wait for ever.
 *
 * @throws {QueueError} `INVALID_OPTION` that names the way.
 */
export function refuseFakeTimers(of: string): void {
  if (![setTimeout, setImmediate].some(isFake)) return;
  throw new QueueError(
    "INVALID_OPTION",
    `${of}: the test's timers are fake, so a worker would wait for ever. Fake the date alone, vi.useFakeTimers({ toFake: ["Date"] }), or use real timers until this has ended.`,
  );
}

/** Marked are those of vitest, Jest and Sinon, and Jest's older ones; those of node:test are bound methods. */
const isFake = (timer: object & { readonly name: string }): boolean =>
  "clock" in timer || "_isMockFunction" in timer || timer.name.startsWith("bound ");
