import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { z } from "zod";
import type { Session, Step } from "./actor.js";

const queue = createQueue({
  jobs: defineJobs({ keyed: defineJob({ payload: z.object({ no: z.number() }) }) }),
});

/** What producers were told, by key. */
export const told = new Map<string, { readonly id: number; readonly created: boolean }[]>();

/** A transaction that enqueues under a key: begin, enqueue, commit. */
export function enqueueSteps({ client }: Session, key: string): Step[] {
  // Drizzle takes a client for a database; that it is inside a transaction is known here only.
  const tx = Object.assign(drizzle(client), {
    rollback(): never {
      throw new Error("Nobody rolls back here.");
    },
  });
  let answer: { readonly id: number; readonly created: boolean } | undefined;
  return [
    () => client.query("begin"),
    async () => {
      const no = Number(key.slice("key-".length));
      answer = await queue.enqueue(tx, "keyed", { no }, { idempotencyKey: key });
    },
    async () => {
      await client.query("commit");
      if (answer !== undefined) told.set(key, [...(told.get(key) ?? []), answer]);
    },
  ];
}
