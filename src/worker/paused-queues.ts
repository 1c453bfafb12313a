import type { QueueEvent } from "../instrumentation/instrumentation.js";

/** What a worker knows of the pauses of the queues that it serves. */
export interface PausedQueues {
  /** Learns which of them are paused by now. */
  learn(paused: readonly string[]): void;
  /** Those that are not, as far as is known. */
  open(): readonly string[];
}

export interface PausedQueuesOptions {
  readonly workerId: string;
  readonly queues: readonly string[];
  /** These are paused from now on: none of their jobs is to start. */
  readonly onPaused: (queues: ReadonlySet<string>) => void;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** Starts with none: the first claim tells. */
export function createPausedQueues(options: PausedQueuesOptions): PausedQueues {
  const { workerId, queues, onPaused, emit } = options;
  let paused: ReadonlySet<string> = new Set();
  return {
    learn(told) {
      const before = paused;
      paused = new Set(told);
      const newly = new Set(told.filter((queue) => !before.has(queue)));
      for (const queue of newly) emit?.({ type: "queue.paused", workerId, queue });
      for (const queue of before)
        if (!paused.has(queue)) emit?.({ type: "queue.resumed", workerId, queue });
      if (newly.size > 0) onPaused(newly);
    },
    open: () => queues.filter((queue) => !paused.has(queue)),
  };
}
