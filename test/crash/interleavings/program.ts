import process from "node:process";
import pg from "pg";
import { createRandom } from "../plan/random.js";
import {
  type Actor,
  claims,
  commitSteps,
  expires,
  type Hold,
  type Session,
  settles,
} from "./actor.js";
import { judgeOrder } from "./judge-order.js";
import { allOrders, type Order, randomOrder } from "./orders.js";
import { PAIRS, type Scenario, TRIPLES } from "./scenarios.js";
import { waitForLock, walk } from "./walk.js";

/**
 * Walks all orders of two actors and some of three, and writes what it found as JSON lines.
 *
 * A program of its own, so that it can be bundled with a mutant of the library.
 */
const [url = "", seed = "1", randomOrders = "100"] = process.argv.slice(2);

const connect = async (who: string): Promise<Session> => {
  const client = new pg.Client({ connectionString: url, options: `-c crash.who=${who}` });
  await client.connect();
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  return { who, client, pid: rows[0]?.pid ?? 0 };
};

const pool = [await connect("first"), await connect("second"), await connect("third")];
const cleaner = await connect("cleaner");
const watcher = await connect("watcher");
let count = 0;

for (const scenario of PAIRS) {
  const [first = 0, second = 0] = stepsOf(scenario);
  for (const order of allOrders(first, second)) await tryOrder(scenario, order);
}
const random = createRandom(Number(seed));
for (const scenario of TRIPLES) {
  const steps = stepsOf(scenario);
  for (let left = Number(randomOrders); left > 0; left -= 1)
    await tryOrder(scenario, randomOrder(random, steps));
}
say({ what: "end", orders: count });
await Promise.all([...pool, cleaner, watcher].map(({ client }) => client.end()));

function stepsOf(scenario: Scenario): number[] {
  const hold: Hold = { jobId: 0, version: 0, guard: "none" };
  return scenario.actors(pool, hold, "key-0").map(({ steps }) => steps.length);
}

async function tryOrder(scenario: Scenario, order: Order): Promise<void> {
  count += 1;
  const key = `key-${count}`;
  const held: Hold = { jobId: 0, version: 0, guard: "none" };
  const sessions = await cast(scenario);
  await prepare(scenario, held, sessions);
  const actors = scenario.actors(sessions, held, key);
  const found = await walked(actors, order);
  await cleanUp();
  found.push(...(await judgeOrder(watcher.client, key)));
  if (found.length > 0) say({ what: "violation", scenario: scenario.name, order, found });
}

async function walked(actors: readonly Actor[], order: Order): Promise<string[]> {
  try {
    const pids = pool.map(({ pid }) => pid);
    await walk(actors, order, () => waitForLock(watcher.client, pids));
    return [];
  } catch (error) {
    await Promise.all(pool.map(({ client }) => client.query("rollback")));
    return [`a step errored: ${String(error)}`];
  }
}

/** Gives the sessions to those who play in a scenario. */
async function cast({ who }: Scenario): Promise<Session[]> {
  const sessions = who.map((name, index) => ({ ...(pool[index] as Session), who: name }));
  for (const { client, who: name } of sessions)
    await client.query("select set_config('crash.who', $1, false)", [name]);
  return sessions;
}

async function prepare({ job }: Scenario, held: Hold, [holder]: readonly Session[]): Promise<void> {
  await watcher.client.query(
    "truncate public.queue_jobs, public.queue_processed_keys, ledger.audit, ledger.effects, ledger.outside",
  );
  if (job === null || holder === undefined) return;
  await holder.client.query(
    `insert into public.queue_jobs (queue, name, payload) values ('default', $1, '{"no": 1}')`,
    [job],
  );
  await claims(holder, held, [job])();
}

/** Somebody comes after all others, as a fleet does: whatever is left is done. */
async function cleanUp(): Promise<void> {
  for (;;) {
    const hold: Hold = { jobId: 0, version: 0, guard: "none" };
    await expires(cleaner)();
    await claims(cleaner, hold, ["effect", "settle", "keyed"])();
    if (hold.version === 0) return;
    const { rows } = await watcher.client.query<{ name: string }>(
      "select name from public.queue_jobs where id = $1",
      [hold.jobId],
    );
    const steps =
      rows[0]?.name === "settle"
        ? [settles(cleaner, hold, { way: "complete" })]
        : commitSteps(cleaner, hold);
    for (const step of steps) await step();
  }
}

function say(message: object): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
