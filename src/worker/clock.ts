/** The longest delay that Node's timers keep; a longer one would fire at once. */
const MAX_TIMER_MS = 2_147_483_647;

/** Milliseconds on a clock that never jumps and has nothing to do with the date. */
export const monotonicMs = (): number => performance.now();

/**
 * Calls `action` once after `delayMs`; a delay beyond what Node's timers hold is waited in pieces.
 *
 * @returns A function that calls it off.
 */
export function after(delayMs: number, action: () => void): () => void {
  const until = monotonicMs() + delayMs;
  let timer: NodeJS.Timeout;
  const arm = (): void => {
    const left = until - monotonicMs();
    timer =
      left > MAX_TIMER_MS ? setTimeout(arm, MAX_TIMER_MS) : setTimeout(action, Math.max(0, left));
  };
  arm();
  return () => clearTimeout(timer);
}

/** Spreads a delay evenly over `ms` to `ms * (1 + share)`, so that workers do not move in step. */
export const jittered = (ms: number, share = 0.2): number => ms * (1 + Math.random() * share);
