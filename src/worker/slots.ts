import type { QueueEvent } from "../instrumentation/instrumentation.js";
import { eventAttempt, type HeldJob } from "./held-job.js";

/** How long a handler may go on after it was told to end before its slot is given to others, in milliseconds. */
const STUCK_AFTER_MS = 5_000;

/** The places in which handlers run, and the jobs that wait for one. */
export interface Slots {
  /** Starts jobs as far as slots are free, and keeps the others in line. */
  offer(jobs: readonly HeldJob[]): void;
  /** Takes back every job that has not started. */
  withdraw(): readonly HeldJob[];
  /** How many handlers could start now. */
  free(): number;
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
  /** Called when a handler has gone on for long after its abort and lost its slot. */
  readonly onStuck: (held: HeldJob) => void;
  /** Called when a slot has become free and nobody waits for it. */
  readonly onFree: () => void;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** Creates `concurrency` free slots. */
export function createSlots({ concurrency, run, onStuck, onFree, emit }: SlotsOptions): Slots {
  const running = new Set<HeldJob>();
  /** Handlers that still run but no longer count. */
  const stuck = new Set<HeldJob>();
  const abortedAtMs = new WeakMap<HeldJob, number>();
  let line: HeldJob[] = [];
  let position = 0;
  let onIdle: (() => void)[] = [];

  const next = (): HeldJob | undefined => {
    while (position < line.length) {
      const held = line[position];
      position += 1;
      // What was lost while it waited must not start.
      if (held !== undefined && held.phase === "waiting") return held;
    }
    line = [];
    position = 0;
    return undefined;
  };

  const fill = (): void => {
    while (running.size < concurrency) {
      const held = next();
      if (held === undefined) return;
      running.add(held);
      void start(held);
    }
  };

  const start = async (held: HeldJob): Promise<void> => {
    await run(held);
    const wasCounted = running.delete(held);
    stuck.delete(held);
    if (wasCounted) fill();
    if (running.size < concurrency) onFree();
    if (running.size + stuck.size === 0) {
      for (const resolve of onIdle) resolve();
      onIdle = [];
    }
  };

  return {
    offer(jobs) {
      line = position === 0 ? [...line, ...jobs] : [...line.slice(position), ...jobs];
      position = 0;
      fill();
    },
    withdraw() {
      const left = line.slice(position).filter((held) => held.phase === "waiting");
      line = [];
      position = 0;
      return left;
    },
    free: () => concurrency - running.size,
    waiting: () => line.length - position,
    isBusy: () => running.size > 0 || position < line.length,
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
