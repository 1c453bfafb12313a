import { hostname } from "node:os";
import pg from "pg";
import type { Executor, Row, Statement } from "../../../src/queries/executor.js";
import { settleAndClaim } from "../../../src/queries/settle-and-claim.js";
import { tableNames } from "../../../src/schema/table-names.js";
import type { Contender, ContenderOptions } from "../contender.js";
import { open as openLibrary } from "./drizzle-queue.js";

/** As many as the library asks for at once when handlers take no time. */
const AHEAD = 200;

/** What the library's own sessions are set to (src/worker/connection.ts). */
const SESSION =
  "set enable_seqscan = off; set jit = off; set plan_cache_mode = force_generic_plan; set search_path = ''";

/**
 * The ceiling: the library's own statements in a bare loop. No queue of slots,
 * no leases kept, no events, no schema check: what is left is the server's work
 * and the driver's.
 */
export function open(options: ContenderOptions): Contender {
  const library = openLibrary(options);
  const client = new pg.Client({ connectionString: options.url });
  let isOver = false;
  let loop: Promise<void> | undefined;
  const run = async (handler: (number: number) => Promise<void> | void): Promise<void> => {
    const isRemoving = options.settings["done"] === 0;
    const send = settleAndClaim(tableNames());
    const executor: Executor = {
      async run(statement: Statement): Promise<readonly Row[]> {
        return (await client.query({ ...statement, values: [...statement.values] })).rows;
      },
    };
    let held: { id: number; leaseVersion: number }[] = [];
    let floor: { atUs: number; id: number } | null = null;
    while (!isOver) {
      const settlement = { way: isRemoving ? ("remove" as const) : ("complete" as const) };
      const answer = await send(executor, {
        items: held.map((job) => ({ ...job, settlement, recordsKey: false })),
        request: {
          workerId: `${hostname()}:${process.pid}:0`,
          pairs: [{ queue: "default", priority: 5, floor }],
          names: ["bench"],
          free: options.concurrency,
          ahead: AHEAD,
          leaseMs: 30_000,
          leaseMsByName: {},
          sweep: undefined,
          peeks: false,
          hasBacklog: true,
          isPrompt: false,
        },
      });
      const jobs = answer.claim?.jobs ?? [];
      floor = jobs.at(-1)?.place ?? floor;
      held = [];
      for (const job of jobs) {
        const waits = handler(JSON.parse(job.payload).n);
        if (waits instanceof Promise) await waits;
        held.push({ id: job.id, leaseVersion: job.leaseVersion });
      }
      if (jobs.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    }
  };
  return {
    ...library,
    async start(handler) {
      await client.connect();
      await client.query(SESSION);
      loop = run(handler);
    },
    async stop() {
      isOver = true;
      await loop;
      await client.end();
      await library.stop();
    },
  };
}
