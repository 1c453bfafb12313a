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
  /** Starts jobs as far as slots are free, and keeps the others in line; they were claimed for so many slots, and ahead. */
  offer(jobs: readonly HeldJob[], claimedFor: number): void;
  /** Takes back every job that has not started and that is meant. */
  withdraw(isMeant: (held: HeldJob) => boolean): readonly HeldJob[];
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
  /** The priority of a job that was passed over, if any: what was fetched ahead and is not more urgent leaves free slots to it. */
  readonly yieldsTo: () => number | undefined;
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

  /** Whether the first that was fetched ahead leaves a free slot to others. */
  const yields = (): boolean => {
    const first = ahead.first();
    const passedPriority = options.yieldsTo();
    return (
      first !== undefined && passedPriority !== undefined && first.job.priority >= passedPriority
    );
  };

  const free = (): number => {
    const inLine = promised.length() + (yields() ? 0 : ahead.length());
    return Math.max(0, concurrency - running.size - inLine);
  };

  const fill = (): void => {
    while (running.size < concurrency && startsInTurn < startsPerTurn) {
      const held = promised.next() ?? (yields() ? undefined : ahead.next());
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
    offer(jobs, claimedFor) {
      let left = claimedFor - jobs.filter(needsSlot).length;
      for (const held of jobs) {
        const isPromised = needsSlot(held) || left > 0;
        if (!needsSlot(held)) left -= 1;
        (isPromised ? promised : ahead).add(held);
      }
      // Those in line may have waited for this claim.
      fill();
    },
    withdraw: (isMeant) => [...promised.remove(isMeant), ...ahead.remove(isMeant)],
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

/** A claim takes such jobs for a free slot only. */
const needsSlot = ({ job }: HeldJob): boolean => job.attempts > 1 || job.maxAttempts === 1;

/** So many places of a line that have been passed are given up together. */
const PASSED = 1_000;

/** Jobs in the order in which they are to start. */
function createLine() {
  let line: HeldJob[] = [];
  let position = 0;
  /** The first that is still to start: what was lost while it waited must not. */
  const first = (): HeldJob | undefined => {
    while (position < line.length && line[position]?.phase !== "waiting") position += 1;
    // A line that is always refilled never ends, and would keep all that has run.
    if (position >= PASSED || (position > 0 && position === line.length)) {
      line = line.slice(position);
      position = 0;
    }
    return line[position];
  };
  return {
    add: (held: HeldJob) => void line.push(held),
    first,
    next(): HeldJob | undefined {
      const held = first();
      if (held !== undefined) position += 1;
      return held;
    },
    length: () => line.length - position,
    remove(isMeant: (held: HeldJob) => boolean): readonly HeldJob[] {
      const left = line.slice(position).filter((held) => held.phase === "waiting");
      line = left.filter((held) => !isMeant(held));
      position = 0;
      return left.filter(isMeant);
    },
  };
}
