import { jittered, monotonicMs } from "./clock.js";
import type { SettleBatch, SettleBuffer } from "./settle-buffer.js";

/**
 * Writes outcomes on the listening connection while the claims go on: two
 * processes of the server work at once, and neither waits for the other.
 */
export interface SettleLane {
  /** There may be something to send, or a reason to. */
  notice(): void;
  /** Whether what has gathered is to leave this way, so that the next claim goes without it. */
  takesOver(): boolean;
  /** Whether a batch has been under way for longer than one takes: the connection may hang. */
  isSlow(): boolean;
  /** Resolves when nothing is under way any more; undefined if nothing is. */
  underWay(): Promise<void> | undefined;
}

export interface SettleLaneOptions {
  readonly settles: SettleBuffer;
  /** Writes a batch; what was not written is put back before this rejects. */
  readonly send: (batch: SettleBatch) => Promise<void>;
  /** Whether a claim is under way, and the connection has nothing else to do that takes long. */
  readonly isWanted: () => boolean;
}

/**
 * From so many outcomes on they leave by themselves, not with the claim: a statement costs the
 * server 130 µs (ADR 0011), which is little against the work of two of its processes at once.
 */
const FROM = 100;
/** When so many wait, they come in faster than they are written here: the claims help. */
const FLOOD = 1_000;
/** A batch that takes longer than this is slow, in milliseconds: 2 to 8 are usual. */
const SLOW_MS = 100;
/** How long outcomes travel with the claims after an error on this connection, in milliseconds. */
const PAUSE_MS = 500;

/** Creates a lane on which nothing is under way. */
export function createSettleLane({ settles, send, isWanted }: SettleLaneOptions): SettleLane {
  let underWay: Promise<void> | undefined;
  let isScheduled = false;
  let notBeforeMs = 0;
  let sentAtMs = 0;

  const isWorthIt = (): boolean =>
    settles.size() >= FROM && !settles.hasRefused() && monotonicMs() >= notBeforeMs;

  const next = (): SettleBatch | undefined =>
    isWanted() && isWorthIt() ? settles.take(monotonicMs(), true) : undefined;

  /** @returns Whether anything left: what waits may be busy, and not be due yet. */
  const leave = async (): Promise<boolean> => {
    let hasLeft = false;
    for (let batch = next(); batch !== undefined; batch = next()) {
      hasLeft = true;
      sentAtMs = monotonicMs();
      await send(batch).catch(() => {
        notBeforeMs = monotonicMs() + jittered(PAUSE_MS);
      });
    }
    return hasLeft;
  };

  const run = async (): Promise<void> => {
    const hasLeft = await leave();
    underWay = undefined;
    if (hasLeft) notice();
  };

  const notice = (): void => {
    if (underWay !== undefined || isScheduled || !isWanted() || !isWorthIt()) return;
    isScheduled = true;
    // What ends in this turn of the event loop goes along.
    setImmediate(() => {
      isScheduled = false;
      underWay = run();
    });
  };

  const isSlow = (): boolean => underWay !== undefined && monotonicMs() - sentAtMs > SLOW_MS;

  return {
    notice,
    takesOver: () => isWorthIt() && settles.size() < FLOOD && !isSlow(),
    isSlow,
    underWay: () => underWay,
  };
}
