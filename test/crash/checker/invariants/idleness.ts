import type { IdleWorker } from "../../fleet/watch-idle.js";
import type { AttemptEntry, RestEntry } from "../../ledger/entries.js";
import type { Ledger } from "../../ledger/read-ledger.js";
import { inquire, type Verdict } from "../verdict.js";

/** What an idle worker may send in a minute, on the jobs table and in all. */
const STATEMENTS_A_MINUTE = 70;

/**
 * What a short watch may add to that. An edge of it may cut off a poll, one; a
 * worker's row is renewed and what has expired is deleted at longer intervals, one
 * each; the app's pool may let a session go. A worker that turns in a circle sends hundreds.
 */
const SLACK = 6;

/**
 * A worker at rest has 3 sockets, 3 or 4 timers, 7 timer objects with Node's own, about
 * 50 promises, and a signal for each handler that never ended, after 300 attempts as after 4,500.
 * The bounds leave room for a connection that is being made, and for what a later Node
 * keeps; one object per job is beyond them after a hundred jobs.
 */
const MOST_RESOURCES: Readonly<Record<string, number>> = { TCPSocketWrap: 6, Timeout: 10 };
const mostObjects = (stuck: number): Readonly<Record<string, number>> => ({
  AbortSignal: 10 + stuck,
  Promise: 130,
  Timeout: 60,
});

/**
 * What a heap gains by working at all: compiled code, prepared statements, pools,
 * what was loaded when first used. 2.3 to 2.5 MB after 300 attempts, 3.2 after 1,700: too
 * coarse to see what a few hundred jobs leave behind, which is why objects are counted besides.
 */
const WARM_UP_BYTES = 4_000_000;
/** 1 MB per 100,000 jobs, in bytes. A held job is a kilobyte at least. */
const BYTES_PER_JOB = 10;

/** I15: with nothing to do a worker does next to nothing, and nothing is left of what it did. */
export function idlenessIsCheap({ facts, attempts }: Ledger): Verdict {
  const inquiry = inquire(
    "I15",
    "an idle worker sends at most 70 statements a minute, and has let go of every job that it ran",
  );
  const rests = new Map(
    attempts.flatMap((entry) => (entry.what === "rest" ? [[entry.who, entry] as const] : [])),
  );
  const stuck = new Map(attempts.flatMap(stuckHandlers));
  for (const worker of facts.idle) {
    const { who } = worker;
    for (const wrong of [
      ...wrongSent(worker),
      ...wrongLeft(who, rests.get(who), stuck.get(who) ?? 0),
    ])
      inquiry.look(wrong);
  }
  return inquiry.verdict();
}

/** How many handlers of a process go on after their abort, as its last event of that kind told. */
function stuckHandlers(entry: AttemptEntry): (readonly [string, number])[] {
  if (entry.what !== "event") return [];
  const { type, stuck } = entry.event as { readonly type?: unknown; readonly stuck?: unknown };
  return type === "handler.stuck" ? [[entry.who, Number(stuck)]] : [];
}

type Found = readonly (string | false)[];

function wrongSent({ who, spanMs, statements, onJobs, byLabel }: IdleWorker): Found {
  const most = (spanMs / 60_000) * STATEMENTS_A_MINUTE + SLACK;
  const told = `in ${(spanMs / 1_000).toFixed(1)} s with nothing to do: ${JSON.stringify(byLabel)}`;
  return [
    statements > most && `${who} sent ${statements} statements ${told}`,
    onJobs > most && `${who} asked the jobs table ${onJobs} times ${told}`,
    // Else it was the watch that saw nothing.
    onJobs === 0 && `${who} was not seen to look for jobs ${told}`,
  ];
}

function wrongLeft(who: string, rest: RestEntry | undefined, stuck: number): Found {
  if (rest === undefined) return [`${who} did not tell what is left in it`];
  const { starts, heapBytes, firstHeapBytes, resources, objects } = rest;
  const after = `after ${starts} attempts`;
  const tooMany = (
    found: Readonly<Record<string, number>>,
    most: Readonly<Record<string, number>>,
  ) =>
    Object.entries(most).map(([name, bound]): string | false => {
      const count = found[name] ?? 0;
      return count > bound && `${who} keeps ${count} of ${name} ${after}`;
    });
  const gained = heapBytes - firstHeapBytes;
  return [
    ...tooMany(resources, MOST_RESOURCES),
    ...tooMany(objects, mostObjects(stuck)),
    gained > WARM_UP_BYTES + starts * BYTES_PER_JOB &&
      `${who} keeps ${gained} bytes more than at its start ${after}`,
  ];
}
