import type { QueueEvent } from "../instrumentation/instrumentation.js";

/** What a worker knows of the pauses of the queues that it serves. */
export interface PausedQueues {
  /** Learns which of them are paused, by a statement that was sent at `sentAtMs`. */
  learn(paused: readonly string[], sentAtMs: number): void;
  isPaused(queue: string): boolean;
  /** Those that are not, as far as is known. */
  open(): readonly string[];
}

export interface PausedQueuesOptions {
  readonly workerId: string;
  readonly queues: readonly string[];
  /** These are paused from now on: none of their jobs is to start. */
  readonly onPaused: (queues: ReadonlySet<string>) => void;
  /** Some are not any more. */
  readonly onResumed: () => void;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** Starts with none: the first claim tells. */
export function createPausedQueues(options: PausedQueuesOptions): PausedQueues {
  const { workerId, queues, onPaused, onResumed, emit } = options;
  let paused: ReadonlySet<string> = new Set();
  let knownSinceMs = Number.NEGATIVE_INFINITY;
  return {
    learn(told, sentAtMs) {
      // Claims, sweeps and the worker's row are on their way at once: what was sent earlier may know less.
      if (sentAtMs < knownSinceMs) return;
      knownSinceMs = sentAtMs;
      const before = paused;
      paused = new Set(told);
      const newly = new Set(told.filter((queue) => !before.has(queue)));
      const over = [...before].filter((queue) => !paused.has(queue));
      for (const queue of newly) emit?.({ type: "queue.paused", workerId, queue });
      for (const queue of over) emit?.({ type: "queue.resumed", workerId, queue });
      if (newly.size > 0) onPaused(newly);
      if (over.length > 0) onResumed();
    },
    isPaused: (queue) => paused.has(queue),
    open: () => queues.filter((queue) => !paused.has(queue)),
  };
}
