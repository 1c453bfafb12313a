/**
 * A small app as a user would write it: it is compiled against the packed
 * package and run. It enqueues in a transaction, works, and prints what happened.
 */
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs, isQueueError, type TxOf } from "drizzle-queue";
import { createAdmin, type JobPage } from "drizzle-queue/admin";
import { type QueueJobRow, queueJobs } from "drizzle-queue/schema";
import { runHandler } from "drizzle-queue/testing";
import { createWorker, defineHandlers } from "drizzle-queue/worker";
import pg from "pg";
import { z } from "zod";

const jobs = defineJobs({
  greet: defineJob({
    payload: z.object({ name: z.string(), polite: z.boolean().default(true) }),
    idempotencyKey: (payload) => payload.name,
    result: z.object({ text: z.string() }),
  }),
});
const queue = createQueue({ jobs });
/** Exported as apps do: the compiler must find a name for every type that its declarations need. */
export const { enqueue, enqueueMany, enqueueNow } = queue;

const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"] });
const db = drizzle({ client: pool });
type Tx = TxOf<typeof db>;

const greetAll = (tx: Tx, names: string[]) =>
  Promise.all(names.map((name) => queue.enqueue(tx, "greet", { name })));

/** Never called: each line must be refused by the compiler. */
export async function refusedByTheCompiler(tx: Tx): Promise<void> {
  // @ts-expect-error no job has this name
  await queue.enqueue(tx, "gret", { name: "Ada" });
  // @ts-expect-error the payload's name is a string
  await queue.enqueue(tx, "greet", { name: 1 });
  // @ts-expect-error a database is not a transaction
  await queue.enqueue(db, "greet", { name: "Ada" });
}

const refused = await db
  .transaction((tx) => queue.enqueue(tx, "greet", JSON.parse('{"name":1}')))
  .catch((error: unknown) => isQueueError(error, "INVALID_PAYLOAD"));

const [first, again] = await db.transaction((tx) => greetAll(tx, ["Ada", "Ada"]));
if (first === undefined || again === undefined) throw new Error("enqueue answered nothing");

let handled: () => void = () => undefined;
const untilHandled = new Promise<void>((resolve) => {
  handled = resolve;
});
export const handlers = defineHandlers(queue, db, {
  greet: async ({ payload }) => {
    handled();
    return { text: payload.polite ? `Good day, ${payload.name}` : payload.name };
  },
});
export const worker = createWorker({ queue, db, handlers });
export const { start, stop } = worker;
await start();
await untilHandled;
await stop({ gracePeriodMs: 10_000 });

export const admin = createAdmin({ queue });
export const { cancel, requeue, listJobs, pauseQueue, pauseSchedule, listSchedules } = admin;
const operated = [await cancel(db, first.id), await db.transaction((tx) => requeue(tx, first.id))];
export const pageOf = (after?: string): Promise<JobPage> =>
  admin.listJobs(db, { status: "failed", name: "greet", after });
const end = await runHandler({ queue, handlers, name: "greet", payload: { name: "Ben" } });
const tested = end.kind === "done" ? end.result.text : end.kind;

const rows: QueueJobRow[] = await db.select().from(queueJobs).where(eq(queueJobs.id, first.id));
await pool.end();
console.log(
  JSON.stringify({
    refused,
    created: [first.created, again.created],
    sameJob: first.id === again.id,
    operated,
    tested,
    jobs: rows.map(({ name, status, attempts, result }) => ({ name, status, attempts, result })),
  }),
);
