import process from "node:process";
import { queryObjects } from "node:v8";
import type { RestEntry } from "../ledger/entries.js";

/** Node's own class of timers, which has no other name. */
const probe = setTimeout(() => undefined, 0);
clearTimeout(probe);

/**
 * Classes of which a job that is not let go of keeps an object: its signal, the
 * promise that waits for it, a timer.
 */
const CLASSES = { AbortSignal, Promise, Timeout: probe.constructor };

/** The heap without garbage. */
export function heapBytes(): number {
  if (globalThis.gc === undefined) throw new Error("Start this with --expose-gc.");
  globalThis.gc();
  return process.memoryUsage().heapUsed;
}

/** Counts what is left in this process. Without garbage, so that the same work leaves the same. */
export function whatIsLeft(): Pick<RestEntry, "heapBytes" | "resources" | "objects"> {
  const resources: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  const objects = Object.entries(CLASSES).map(([name, type]) => [name, queryObjects(type)]);
  return {
    heapBytes: heapBytes(),
    resources,
    objects: Object.fromEntries(objects) as Record<string, number>,
  };
}
