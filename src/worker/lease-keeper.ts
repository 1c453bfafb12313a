import type { QueueEvent } from "../instrumentation/instrumentation.js";
import type { LeaseToRenew, RenewAnswer } from "../queries/renew-leases.js";
import { after, monotonicMs } from "./clock.js";
import type { HeldJob } from "./held-job.js";
import { createRetryPause } from "./retry-pause.js";

/**
 * Invariant: a job that this worker believes to hold has a lease that the
 * server, too, holds valid; where that cannot be known any more, its handler
 * is told to end before anybody else may start.
 *
 * The local deadline counts from before the claim or renewal was sent, so it
 * is never later than the server's. It only ends handlers; who may write is
 * decided by the server's clock alone.
 */

/** How often held jobs are looked at, in milliseconds. */
const TICK_MS = 50;
/** A lease is renewed once this share of it has passed. */
const RENEW_SHARE = 1 / 3;
/** What is renewed anyhow takes along what has passed this share. */
const JOIN_SHARE = 1 / 6;
/** After renewals that errored. */
const PAUSE = { firstMs: 2 * TICK_MS, maxMs: 1_000 };
/** The most leases in one statement; those that are nearest to their end go first. */
const MAX_RENEWALS = 1_000;
/** A turn of the event loop that is this late is worth an event. */
const BLOCKED_MS = 1_000;

export interface LeaseKeeperOptions {
  /** The jobs that are held, as they are at each look. */
  readonly held: () => Iterable<HeldJob>;
  readonly renew: (leases: readonly LeaseToRenew[]) => Promise<ReadonlyMap<number, RenewAnswer>>;
  /** The lease is gone, or may be. */
  readonly onLost: (held: HeldJob, noticedBy: "renewal" | "deadline") => void;
  readonly onTimedOut: (held: HeldJob) => void;
  readonly onCancelled: (held: HeldJob) => void;
  /** Whether there is anything to look at; without, the keeper sleeps until it is told of a job. */
  readonly isIdle: () => boolean;
  /** Called at each tick, for what else goes by time. */
  readonly onTick: (nowMs: number) => void;
  readonly onError: (error: unknown, retryInMs: number) => void;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

export interface LeaseKeeper {
  /** Jobs have been claimed: looks at them from now on. */
  watch(): void;
  stop(): void;
}

/** Creates the keeper of a worker's leases. */
export function createLeaseKeeper(options: LeaseKeeperOptions): LeaseKeeper {
  const { onLost, onTimedOut, onCancelled, emit } = options;
  let callOff: (() => void) | undefined;
  let isStopped = false;
  let isRenewing = false;
  const pause = createRetryPause(PAUSE);
  let dueMs = 0;

  /** Ends what has run out of time; tells how much of its lease is used up. */
  const inspect = (held: HeldJob, nowMs: number): number => {
    const { leaseMs, timeoutMs } = held.definition;
    const ageMs = nowMs - held.leasedAtMs;
    if (ageMs >= leaseMs) onLost(held, "deadline");
    else if (held.phase === "running" && nowMs - held.startedAtMs >= (timeoutMs ?? Infinity))
      onTimedOut(held);
    return ageMs / leaseMs;
  };

  const arm = (): void => {
    dueMs = monotonicMs() + TICK_MS;
    callOff = after(TICK_MS, tick);
  };

  const tick = (): void => {
    const lateMs = monotonicMs() - dueMs;
    if (lateMs > BLOCKED_MS) emit?.({ type: "event_loop.blocked", blockedMs: Math.round(lateMs) });
    callOff = undefined;
    if (isStopped || options.isIdle()) return;
    arm();
    // After a blocked event loop timers come first; answers to renewals may have arrived and not been read.
    if (lateMs > TICK_MS) setImmediate(look);
    else look();
  };

  const look = (): void => {
    if (isStopped) return;
    const nowMs = monotonicMs();
    const used = [...options.held()].map((held) => ({ held, share: inspect(held, nowMs) }));
    options.onTick(nowMs);
    const isDue = used.some(({ held, share }) => held.phase !== "over" && share >= RENEW_SHARE);
    if (!isDue || isRenewing || nowMs < pause.untilMs()) return;
    const ageing = used
      .filter(({ held, share }) => held.phase !== "over" && share >= JOIN_SHARE)
      .toSorted((a, b) => b.share - a.share)
      .slice(0, MAX_RENEWALS);
    void renew(ageing.map(({ held }) => held));
  };

  const renew = async (ageing: readonly HeldJob[]): Promise<void> => {
    isRenewing = true;
    let goesOn = false;
    const sentAtMs = monotonicMs();
    try {
      const answers = await options.renew(
        ageing.map(({ job, definition }) => ({
          id: job.id,
          leaseVersion: job.leaseVersion,
          leaseMs: definition.leaseMs,
        })),
      );
      pause.succeeded();
      for (const held of ageing) apply(held, answers.get(held.job.id), sentAtMs);
      const busy = [...answers.values()].filter((answer) => answer === "busy").length;
      // There may be more than one statement takes, and some of them cannot wait for a tick each.
      goesOn = ageing.length === MAX_RENEWALS && busy < ageing.length;
      emit?.({ type: "leases.renewed", count: ageing.length - busy, busy });
    } catch (error) {
      options.onError(error, pause.errored());
    } finally {
      isRenewing = false;
      if (goesOn) setImmediate(look);
    }
  };

  const apply = (held: HeldJob, answer: RenewAnswer | undefined, sentAtMs: number): void => {
    if (held.phase === "over") return;
    switch (answer) {
      case undefined:
        held.leasedAtMs = sentAtMs;
        return;
      case "cancelled":
        held.leasedAtMs = sentAtMs;
        return onCancelled(held);
      case "busy":
        return;
      case "lost":
        // What is being settled, or has just been committed, ends its own lease.
        if (held.phase !== "ending" && held.commit === "none") onLost(held, "renewal");
        return;
    }
  };

  return {
    watch() {
      if (callOff === undefined && !isStopped) arm();
    },
    stop() {
      isStopped = true;
      callOff?.();
    },
  };
}
