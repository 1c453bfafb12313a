import type { Executor } from "../queries/executor.js";
import { CONTROLS_CHANGED } from "../queries/queue-controls.js";
import type { Registered, WorkerRegistration } from "../queries/register-worker.js";
import { after, monotonicMs } from "./clock.js";
import type { Connection } from "./connection.js";
import { withDeadline } from "./deadline.js";
import { createRetryPause } from "./retry-pause.js";

/** Being woken by an enqueue, as far as that is worth it; polling goes on behind it. */
export interface WakeUp {
  start(): void;
  /** Ends listening and takes the worker's row away. */
  stop(timeoutMs: number): Promise<void>;
  /** Whether polls are to follow each other closely: nobody notifies, or some may not have seen that they should. */
  pollsClosely(): boolean;
}

export interface WakeUpOptions {
  readonly connection: Connection;
  readonly channel: string;
  readonly registration: Omit<WorkerRegistration, "isWaiting" | "queues">;
  /** The queues of which a new job is worth a notification. */
  readonly openQueues: () => readonly string[];
  /** Hears now and then which queues are paused. */
  readonly onPaused: (queues: readonly string[], sentAtMs: number) => void;
  readonly register: (executor: Executor, registration: WorkerRegistration) => Promise<Registered>;
  readonly unregister: (executor: Executor, workerId: string) => Promise<void>;
  /** Whether a notification would be of use: arrivals are rare and a slot is free. */
  readonly wantsNotifications: () => boolean;
  /** Whether jobs arrive so often that polling closely replaces notifications. */
  readonly arrivalsAreFrequent: () => boolean;
  /** A job was enqueued. */
  readonly onWake: () => void;
  /** Jobs may be there that nobody tells of. */
  readonly onLook: () => void;
  readonly onError: (error: unknown, retryInMs: number) => void;
}

/** The flag changes at most this often: each change is a row version for every enqueue to step over. */
const SECOND_MS = 1_000;
/** How often the row and the connection are proved alive, in milliseconds. */
const PING_MS = 10_000;
/** How long after the flag went on a transaction that did not see it may still commit, in milliseconds. */
const COMMIT_LAG_MS = 1_000;
const PAUSE = { firstMs: 500, maxMs: 2_000 };

/** Creates the wake-up of one worker. */
export function createWakeUp(options: WakeUpOptions): WakeUp {
  const { connection, registration } = options;
  let isStopped = false;
  let isListening = false;
  let isWaiting = false;
  let queues: readonly string[] = [];
  /** What is said about queues has changed since the row was written. */
  let isOutdated = false;
  let waitingSinceMs = Number.NEGATIVE_INFINITY;
  let lastPingMs = Number.NEGATIVE_INFINITY;
  const pause = createRetryPause(PAUSE);
  let isBusy = false;
  let callOff: (() => void) | undefined;

  const listen = async (): Promise<void> => {
    await connection.listen(options.channel, (payload) => {
      if (payload === registration.workerId) options.onWake();
      if (payload !== CONTROLS_CHANGED) return;
      isOutdated = true;
      options.onLook();
    });
    isListening = true;
  };

  const write = async (waits: boolean): Promise<void> => {
    // The row is being taken away: one written now would stay.
    if (isStopped) return;
    const told = options.openQueues();
    const sentAtMs = monotonicMs();
    isOutdated = false;
    const { isListening: stillListens, paused } = await options.register(connection, {
      ...registration,
      queues: told,
      isWaiting: waits,
    });
    const isMore = told.some((queue) => !queues.includes(queue));
    queues = told;
    options.onPaused(paused, sentAtMs);
    if (!stillListens) {
      isListening = false;
      throw new Error("The session no longer listens.");
    }
    lastPingMs = monotonicMs();
    if (waits && (isMore || !isWaiting)) waitingSinceMs = lastPingMs;
    isWaiting = waits;
  };

  /** Brings connection, channel and row to what they should be; the next second tries again what failed. */
  const look = async (): Promise<void> => {
    // The claims use this connection too, and may have made it anew.
    const isNew = !isListening || !connection.isListening();
    if (isNew) await listen();
    const waits = options.wantsNotifications();
    const isTurned = waits !== isWaiting || isOutdated || !isAlike(options.openQueues(), queues);
    if (isNew || isTurned || monotonicMs() - lastPingMs >= PING_MS) await write(waits);
    // What was sent while nobody listened, or committed while no notification was asked for, is not told
    // again; and who is not notified any more is to poll closely from now on.
    if (isNew || isTurned) options.onLook();
    pause.succeeded();
  };

  const everySecond = (): void => {
    callOff = after(SECOND_MS, everySecond);
    if (isBusy || monotonicMs() < pause.untilMs()) return;
    isBusy = true;
    look()
      .catch((error: unknown) => {
        isListening = false;
        isWaiting = false;
        const retryInMs = pause.errored();
        if (!isStopped) options.onError(error, retryInMs);
      })
      .finally(() => {
        isBusy = false;
      });
  };

  return {
    start: everySecond,
    async stop(timeoutMs) {
      isStopped = true;
      callOff?.();
      if (connection.isConnected()) {
        const unregistered = options.unregister(connection, registration.workerId);
        await withDeadline(timeoutMs, "unregister", unregistered).catch((error: unknown) =>
          options.onError(error, 0),
        );
      }
      await connection.close(timeoutMs);
    },
    pollsClosely: () =>
      options.arrivalsAreFrequent() ||
      (isWaiting && monotonicMs() - waitingSinceMs < COMMIT_LAG_MS),
  };
}

const isAlike = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((queue, index) => queue === b[index]);
