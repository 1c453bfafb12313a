import type { Queue } from "drizzle-queue";
import { runHandler } from "drizzle-queue/testing";
import { createWorker } from "drizzle-queue/worker";
import {
  attemptEventError,
  type EventError,
  type QueueEvent,
} from "../../src/instrumentation/instrumentation.js";
import type { JobMap } from "../../src/registry/job-definition.js";
import type { HandlerEnd } from "../../src/testing/handler-end.js";
import type { Room } from "../worker/room.js";

/** What an attempt came to, said in the same words for a test and for a worker. */
export interface Told {
  readonly kind: HandlerEnd["kind"];
  /** Of the error that ended it, or that came after its commit. */
  readonly error?: string;
  readonly delayMs?: number;
}

/** One attempt to make. */
export interface Try {
  readonly queue: Queue<JobMap>;
  readonly name: string;
  readonly payload: unknown;
  readonly options?: object;
  // oxlint-disable-next-line typescript/no-explicit-any -- handlers of many jobs in one list
  readonly handler: (context: any) => unknown;
}

const named = ({ name, message, code }: EventError): string =>
  // Messages name the job's id, which is 1 in a test.
  code === undefined ? `${name}: ${message}` : `${name} ${code}`;

/** Makes it by `runHandler`. */
export async function inTest(room: Room, given: Try, more: object = {}): Promise<HandlerEnd> {
  const { queue, name, payload, options = {}, handler } = given;
  return runHandler({
    queue,
    db: room.db,
    name,
    payload: payload as never,
    options,
    handlers: { [name]: handler } as never,
    ...more,
  }) as Promise<HandlerEnd>;
}

/** The words for what `runHandler` answers. */
export function toldOf(end: HandlerEnd): Told {
  switch (end.kind) {
    case "done":
      return {
        kind: end.kind,
        ...(end.errorAfterCommit && { error: named(end.errorAfterCommit) }),
      };
    case "retry":
      return {
        kind: end.kind,
        error: named(attemptEventError(end.error)),
        delayMs: end.delayMs,
      };
    case "fail":
      return { kind: end.kind, error: named(attemptEventError(end.error)) };
    case "snooze":
      return { kind: end.kind, delayMs: end.delayMs };
    case "release":
    case "cancel":
    case "lost":
      return { kind: end.kind };
  }
}

const KINDS = {
  "job.done": "done",
  "attempt.errored": "retry",
  "job.failed": "fail",
  "job.snoozed": "snooze",
  "job.released": "release",
  "job.cancelled": "cancel",
  "lease.lost": "lost",
} as const;

type EndEvent = Extract<QueueEvent, { readonly type: keyof typeof KINDS }>;
const isEnd = (event: QueueEvent): event is EndEvent => Object.hasOwn(KINDS, event.type);

/** Makes it by a worker that has nothing else to do; `onStart` is given its stop. */
export async function onWorker(
  room: Room,
  { queue, name, payload, options = {}, handler }: Try,
  onStart: (stop: () => void) => void = () => undefined,
): Promise<Told> {
  let late: EventError | undefined;
  let onEnd = (_event: EndEvent): void => {};
  const ended = new Promise<EndEvent>((resolve) => {
    onEnd = resolve;
  });
  const worker = createWorker({
    queue,
    db: room.db,
    only: [name],
    handlers: { [name]: handler } as never,
    concurrency: 1,
    pollIntervalMs: 10,
    instrumentation: {
      event(event) {
        if (event.type === "handler.errored_after_commit") late = event.error;
        if (isEnd(event)) onEnd(event);
      },
    },
  });
  onStart(() => void worker.stop({ gracePeriodMs: 0 }));
  await queue.enqueueNow(room.db, name, payload as never, options as never);
  await worker.start();
  const end = await ended;
  await worker.stop({ gracePeriodMs: 1_000 });
  const error = late ?? ("error" in end ? end.error : undefined);
  return {
    kind: KINDS[end.type],
    ...(error && { error: named(error) }),
    ...("retryInMs" in end && { delayMs: end.retryInMs }),
    ...("delayMs" in end && { delayMs: end.delayMs }),
  };
}
