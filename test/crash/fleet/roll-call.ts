import type { ConnectionKind } from "../plan/fault.js";
import type { Proxy } from "../proxy/proxy.js";
import type { Fleet } from "./fleet.js";

/** How long a worker may take until it has found its way back: a deadline, a few tries, a busy machine. */
const PATIENCE_MS = 30_000;
/** Who has looked for jobs since then is there: workers poll once a second. */
const RECENT_MS = 3_000;

/**
 * Waits until every worker that is up has looked for jobs lately, and tells how long each has not.
 *
 * @param on The kind of connection on which they look.
 */
export async function callRoll(
  fleet: Fleet,
  proxy: Proxy,
  on: ConnectionKind,
): Promise<{ readonly slot: string; readonly silentMs: number }[]> {
  const untilMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const answers = fleet.workers().map((slot) => ({ slot, silentMs: proxy.silentMs(slot, on) }));
    const isComplete = answers.every(({ silentMs }) => silentMs < RECENT_MS);
    if (isComplete || performance.now() > untilMs) return answers;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
