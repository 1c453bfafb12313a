import type { Instrumentation, QueueEvent } from "../../src/instrumentation/instrumentation.js";

type EventType = QueueEvent["type"];
type EventOf<T extends EventType> = Extract<QueueEvent, { readonly type: T }>;

/** Collects the events of a queue or worker, and lets a test wait for the next one. */
export interface EventSpy {
  /** To be handed to `createQueue` or `createWorker`. */
  readonly listener: Instrumentation;
  /** The next event of this type that no earlier `next` has answered, whether it came already or comes later. */
  next<T extends EventType>(
    type: T,
    predicate?: (event: EventOf<T>) => boolean,
    timeoutMs?: number,
  ): Promise<EventOf<T>>;
  /** Every event so far, or every one of a type. */
  all(): readonly QueueEvent[];
  all<T extends EventType>(type: T): readonly EventOf<T>[];
}

interface Waiter {
  readonly matches: (event: QueueEvent) => boolean;
  readonly resolve: (event: QueueEvent) => void;
}

const isOfType = <T extends EventType>(event: QueueEvent, type: T): event is EventOf<T> =>
  event.type === type;

/** Creates a spy that has seen nothing yet. */
export function createEventSpy(): EventSpy {
  const seen: QueueEvent[] = [];
  const answered = new Set<QueueEvent>();
  const waiters = new Set<Waiter>();

  function event(event: QueueEvent): void {
    seen.push(event);
    for (const waiter of waiters) {
      if (!waiter.matches(event)) continue;
      answered.add(event);
      waiters.delete(waiter);
      waiter.resolve(event);
      return;
    }
  }

  function nextMatching(
    what: string,
    matches: Waiter["matches"],
    timeoutMs: number,
  ): Promise<QueueEvent> {
    const early = seen.find((candidate) => !answered.has(candidate) && matches(candidate));
    if (early !== undefined) {
      answered.add(early);
      return Promise.resolve(early);
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        waiters.delete(waiter);
        reject(
          new Error(`Waited ${timeoutMs} ms in vain for ${what}; seen: ${countByType(seen)}.`),
        );
      }, timeoutMs);
      const waiter: Waiter = {
        matches,
        resolve: (found) => {
          clearTimeout(timer);
          resolve(found);
        },
      };
      waiters.add(waiter);
    });
  }

  return Object.freeze({
    listener: { event },
    async next<T extends EventType>(
      type: T,
      predicate: (event: EventOf<T>) => boolean = () => true,
      timeoutMs = 10_000,
    ) {
      const matches = (candidate: QueueEvent) => isOfType(candidate, type) && predicate(candidate);
      return (await nextMatching(`the event ${type}`, matches, timeoutMs)) as EventOf<T>;
    },
    all<T extends EventType>(type?: T) {
      return type === undefined
        ? [...seen]
        : (seen.filter((event) => event.type === type) as EventOf<T>[]);
    },
  });
}

function countByType(events: readonly QueueEvent[]): string {
  const counts = new Map<string, number>();
  for (const { type } of events) counts.set(type, (counts.get(type) ?? 0) + 1);
  return [...counts].map(([type, count]) => `${type} × ${count}`).join(", ") || "no event at all";
}
