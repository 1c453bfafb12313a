import type { QueueEvent } from "../instrumentation/instrumentation.js";
import { eventAttempt, type HeldJob } from "./held-job.js";

/** How long a handler may go on after it was told to end before its slot is given to others, in milliseconds. */
const STUCK_AFTER_MS = 5_000;

/**
 * How many handlers start in one turn of the event loop, or as many as there are slots. Short
 * ones follow each other without a turn in between: the whole line would be run before the next
 * statement leaves, and server and process would wait for each other by turns.
 */
const STARTS_PER_TURN = 50;

/** The places in which handlers run, and the jobs that wait for one. */
export interface Slots {
  /** Starts jobs as far as slots are free, and keeps the others in line. */
  offer(jobs: readonly HeldJob[]): void;
  /** Takes back every job that has not started. */
  withdraw(): readonly HeldJob[];
  /** How many handlers could start now. */
  free(): number;
  /** How many were fetched ahead and have not started. */
  waiting(): number;
  /** Whether any handler runs or waits to. */
  isBusy(): boolean;
  running(): readonly HeldJob[];
  /** Frees the slots of handlers that ignore their abort. */
  freeStuck(nowMs: number): void;
  /** Resolves when no handler runs any more. */
  idle(): Promise<void>;
}

export interface SlotsOptions {
  readonly concurrency: number;
  /** Runs a handler to its end; never rejects. */
  readonly run: (held: HeldJob) => Promise<void>;
  /** Whether what was fetched ahead leaves free slots to others. */
  readonly yields: () => boolean;
  /** Called when a handler has gone on for long after its abort and lost its slot. */
  readonly onStuck: (held: HeldJob) => void;
  /** Called when a slot has become free and nobody waits for it. */
  readonly onFree: () => void;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** Creates `concurrency` free slots. */
export function createSlots(options: SlotsOptions): Slots {
  const { concurrency, run, onStuck, onFree, emit } = options;
  const running = new Set<HeldJob>();
  /** Handlers that still run but no longer count. */
  const stuck = new Set<HeldJob>();
  const abortedAtMs = new WeakMap<HeldJob, number>();
  /** Jobs that were claimed for a free slot: the next one is theirs. */
  const promised = createLine();
  /** Jobs that were fetched ahead. */
  const ahead = createLine();
  let onIdle: (() => void)[] = [];
  const startsPerTurn = Math.max(concurrency, STARTS_PER_TURN);
  let startsInTurn = 0;

  const takeTurn = (): void => {
    startsInTurn = 0;
    fill();
  };

  const free = (): number => {
    const inLine = promised.length() + (options.yields() ? 0 : ahead.length());
    return Math.max(0, concurrency - running.size - inLine);
  };

  const fill = (): void => {
    while (running.size < concurrency && startsInTurn < startsPerTurn) {
      const held = promised.next() ?? (options.yields() ? undefined : ahead.next());
      if (held === undefined) return;
      if (startsInTurn === 0) setImmediate(takeTurn);
      startsInTurn += 1;
      running.add(held);
      void start(held);
    }
  };

  const start = async (held: HeldJob): Promise<void> => {
    await run(held);
    const wasCounted = running.delete(held);
    stuck.delete(held);
    if (wasCounted) fill();
    if (free() > 0) onFree();
    if (running.size + stuck.size === 0) {
      for (const resolve of onIdle) resolve();
      onIdle = [];
    }
  };

  return {
    offer(jobs) {
      for (const held of jobs) {
        (isFetchedAhead(held) ? ahead : promised).add(held);
        // One by one, so that they start in their order as far as slots are free.
        fill();
      }
      // They may have waited for this claim.
      fill();
    },
    withdraw: () => [...promised.clear(), ...ahead.clear()],
    free,
    waiting: ahead.length,
    isBusy: () => running.size + promised.length() + ahead.length() > 0,
    running: () => [...running, ...stuck],
    freeStuck(nowMs) {
      for (const held of running) {
        if (held.abortReason === undefined) continue;
        const sinceMs = abortedAtMs.get(held);
        if (sinceMs === undefined) abortedAtMs.set(held, nowMs);
        else if (nowMs - sinceMs >= STUCK_AFTER_MS) {
          running.delete(held);
          stuck.add(held);
          emit?.({ type: "handler.stuck", ...eventAttempt(held), stuck: stuck.size });
          onStuck(held);
          fill();
          onFree();
        }
      }
    },
    idle() {
      if (running.size + stuck.size === 0) return Promise.resolve();
      return new Promise((resolve) => onIdle.push(resolve));
    },
  };
}

/** A claim takes such jobs beyond the free slots too; all others have a slot promised. */
const isFetchedAhead = ({ job }: HeldJob): boolean => job.attempts === 1 && job.maxAttempts > 1;

/** Jobs in the order in which they are to start. */
function createLine() {
  let line: HeldJob[] = [];
  let position = 0;
  return {
    add: (held: HeldJob) => void line.push(held),
    /** The first that is still to start: what was lost while it waited must not. */
    next(): HeldJob | undefined {
      while (position < line.length) {
        const held = line[position];
        position += 1;
        if (held?.phase === "waiting") return held;
      }
      line = [];
      position = 0;
      return undefined;
    },
    length: () => line.length - position,
    clear(): readonly HeldJob[] {
      const left = line.slice(position).filter((held) => held.phase === "waiting");
      line = [];
      position = 0;
      return left;
    },
  };
}
