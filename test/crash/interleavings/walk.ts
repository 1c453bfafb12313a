import type pg from "pg";
import type { Actor } from "./actor.js";
import type { Order } from "./orders.js";

/** So long a statement is given before it is asked what it waits for, in milliseconds. */
const LOOK_MS = 3;
/** Nobody waits for longer unless all wait for each other. */
const STUCK_MS = 5_000;

/** A step that is under way. */
interface Pending {
  readonly done: Promise<unknown>;
  isDone: boolean;
}

/**
 * Lets actors take their steps in an order. Who waits for a lock is passed over and
 * goes on once it can; in the end everybody takes the steps that are left.
 *
 * @param isWaiting Whether a statement that is not done yet waits for somebody's lock.
 *
 * @throws When all wait for each other.
 */
export async function walk(
  actors: readonly Actor[],
  order: Order,
  isWaiting: () => Promise<boolean>,
): Promise<void> {
  const taken = actors.map(() => 0);
  const pending: (Pending | undefined)[] = actors.map(() => undefined);

  /** @returns whether the actor is free for its next step. */
  const settle = async (actor: number): Promise<boolean> => {
    const step = pending[actor];
    if (step === undefined) return true;
    await Promise.race([step.done, new Promise((resolve) => setTimeout(resolve, LOOK_MS))]);
    while (!step.isDone && !(await isWaiting())) {
      await Promise.race([step.done, new Promise((resolve) => setTimeout(resolve, LOOK_MS))]);
    }
    if (!step.isDone) return false;
    pending[actor] = undefined;
    await step.done;
    return true;
  };

  const take = async (actor: number): Promise<boolean> => {
    if (!(await settle(actor))) return false;
    const step = actors[actor]?.steps[taken[actor] ?? 0];
    if (step === undefined) return true;
    taken[actor] = (taken[actor] ?? 0) + 1;
    const started: Pending = { isDone: false, done: Promise.resolve() };
    const done = step().finally(() => {
      started.isDone = true;
    });
    // Whoever settles it hears of its error; until then nobody else is to.
    done.catch(() => undefined);
    pending[actor] = Object.assign(started, { done });
    await settle(actor);
    return true;
  };

  const late: number[] = [];
  for (const actor of order) if (!(await take(actor))) late.push(actor);
  const untilMs = performance.now() + STUCK_MS;
  for (let next = late.shift(); next !== undefined; next = late.shift()) {
    if (await take(next)) continue;
    late.push(next);
    if (performance.now() > untilMs) throw new Error("All wait for each other.");
  }
  for (const actor of actors.keys()) {
    while (!(await settle(actor)))
      if (performance.now() > untilMs) throw new Error("A statement waits without end.");
  }
}

/** Whether one of the sessions waits for a lock, as PostgreSQL sees it. */
export async function waitForLock(watcher: pg.Client, pids: readonly number[]): Promise<boolean> {
  const { rows } = await watcher.query<{ waits: boolean }>(
    `select exists (
       select from pg_stat_activity where pid = any($1::int[]) and wait_event_type = 'Lock'
     ) as waits`,
    [pids],
  );
  return rows[0]?.waits === true;
}
