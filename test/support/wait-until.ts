import { setTimeout as sleep } from "node:timers/promises";

/** How long a condition is waited for, and how often it is looked at. */
export interface WaitOptions {
  readonly timeoutMs?: number;
  readonly intervalMs?: number;
}

/**
 * Waits until a condition holds.
 *
 * @param what Names what is waited for, to be read in the error: "job 4 is done".
 * @param condition Looked at again and again; any truthy answer ends the wait and is returned.
 * @throws When time is up, with the last answer or the last error.
 */
export async function waitUntil<T>(
  what: string,
  condition: () => T | Promise<T>,
  { timeoutMs = 10_000, intervalMs = 20 }: WaitOptions = {},
): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const answer = await look(condition);
    if ("value" in answer && answer.value) return answer.value;
    if (performance.now() >= deadline) {
      const seen = "value" in answer ? JSON.stringify(answer.value) : "an error, see cause";
      const cause = "error" in answer ? { cause: answer.error } : {};
      throw new Error(`Waited ${timeoutMs} ms in vain until ${what}; seen last: ${seen}.`, cause);
    }
    await sleep(intervalMs);
  }
}

/** An error may be part of the wait (a server that restarts); it counts only when time is up. */
async function look<T>(
  condition: () => T | Promise<T>,
): Promise<{ value: T } | { error: unknown }> {
  try {
    return { value: await condition() };
  } catch (error) {
    return { error };
  }
}
