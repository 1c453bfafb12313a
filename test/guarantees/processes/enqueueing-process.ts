/** Enqueues one job in a transaction and waits to be killed, before or after its commit. */
import process from "node:process";
import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";
import { report } from "../../support/worker-process.js";
import { queue } from "./jobs.js";

const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"] });
const hang = () => new Promise<never>(() => {});
// A promise alone does not keep a process alive.
setInterval(() => {}, 60_000);

await drizzle(pool).transaction(async (tx) => {
  await queue.enqueue(tx, "work", { n: 1 });
  report({ type: "enqueued" });
  if (process.env["DIES"] === "before commit") await hang();
});
report({ type: "committed" });
await hang();
