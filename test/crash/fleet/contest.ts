import type { Slot } from "../plan/fault.js";
import type { Proxy } from "../proxy/proxy.js";

/** How long a holder's words travel at most: until others should have noticed, and less than a statement's deadline. */
const maxTravelMs = (leaseMs: number): number => leaseMs * 1.2 + 2_500;

/** So many holders may contend for one job; after that it is left alone. */
const MAX_CONTESTS = 3;

/** What the handler of a contested job says at each attempt; nobody but the proxy listens. */
export const contestedText = (no: number): string => `select 'contested ${no}'`;

/** How long whoever takes a contested job over stays at it, for late words to arrive meanwhile. */
export const LINGER_MS = 1_000;

/** A process whose words are on their way. */
interface Contest {
  readonly no: string;
  readonly slot: Slot;
  readonly untilMs: number;
}

/**
 * Makes sure that what a former holder says arrives while another holds its job.
 *
 * Left to chance that is rare: a worker stops by itself when a lease runs out,
 * and the server ends its transaction. So the handler of a contested job says
 * when it has the job. From then on this process's renewals, its settling and
 * the first statements of its commits are on their way until another process
 * says that it has the job now.
 */
export function contest(proxy: Proxy, all: readonly Slot[], leaseMs: number): void {
  const contests = new Map<Slot, Contest>();
  const counts = new Map<string, number>();
  const isOn = ({ untilMs }: Contest): boolean => untilMs > performance.now();

  /** Takes the job over from whoever contends for it, or begins to contend. */
  const contend = (slot: Slot, no: string): void => {
    const former = [...contests.values()].find((other) => other.no === no && isOn(other));
    if (former !== undefined) {
      if (former.slot === slot) return;
      contests.delete(former.slot);
      counts.set(no, MAX_CONTESTS);
      proxy.release(former.slot);
      return;
    }
    const count = counts.get(no) ?? 0;
    const others = [...contests.values()].filter(isOn).length;
    // Somebody has to be there to take over.
    if (count >= MAX_CONTESTS || others >= all.length - 2) return;
    counts.set(no, count + 1);
    contests.set(slot, { no, slot, untilMs: performance.now() + maxTravelMs(leaseMs) });
  };

  for (const slot of all) {
    proxy.intercept(slot, (statement) => {
      const no = CONTESTED.exec(statement)?.[1];
      if (no !== undefined) contend(slot, no);
      const holdMs = (contests.get(slot)?.untilMs ?? 0) - performance.now();
      return holdMs > 0 && WORDS.test(statement) ? { holdMs } : undefined;
    });
  }
}

const CONTESTED = /^select 'contested (\d+)'$/;

/**
 * Renewals, whatever settles, and the limit of a commit's transaction. Once the
 * limit has arrived, nothing but the guard keeps that transaction from completing the job.
 */
const WORDS = /^renew|^(complete|remove|discard|end)(_|$)|set_config\('statement_timeout'/;
