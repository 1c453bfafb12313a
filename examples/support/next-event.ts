import type { Instrumentation, QueueEvent } from "drizzle-queue";

/** An event of one type. */
export type EventOf<T extends QueueEvent["type"]> = Extract<QueueEvent, { readonly type: T }>;

/** Lets a program wait for what happens in a worker, in order. */
export interface EventWaiter {
  /** To be handed to `createWorker` or `createQueue`. */
  readonly instrumentation: Instrumentation;
  /** The next event of this type; each event is given once. */
  next<T extends QueueEvent["type"]>(type: T): Promise<EventOf<T>>;
}

/** Creates a waiter that keeps what nobody has asked for yet. */
export function nextEvent(): EventWaiter {
  const kept: QueueEvent[] = [];
  const waiting: { type: string; resolve: (event: QueueEvent) => void }[] = [];

  function event(event: QueueEvent): void {
    const at = waiting.findIndex(({ type }) => type === event.type);
    if (at === -1) kept.push(event);
    else waiting.splice(at, 1)[0]?.resolve(event);
  }

  function next(type: string): Promise<QueueEvent> {
    const at = kept.findIndex((event) => event.type === type);
    const [found] = at === -1 ? [] : kept.splice(at, 1);
    if (found !== undefined) return Promise.resolve(found);
    return new Promise((resolve) => waiting.push({ type, resolve }));
  }

  return { instrumentation: { event }, next: next as EventWaiter["next"] };
}
