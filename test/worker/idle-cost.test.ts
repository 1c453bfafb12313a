import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { createTcpProxy } from "../support/tcp-proxy.js";
import { waitUntil } from "../support/wait-until.js";
import { openRoom } from "./room.js";

/** How long an idle worker is watched. */
const WINDOW_MS = 30_000;

test("an idle worker sends at most 70 statements a minute in all", {
  timeout: 90_000,
}, async () => {
  const room = await openRoom();
  const proxy = await createTcpProxy(room.url);
  let sent = 0;
  let lastSentAt = 0;
  proxy.intercept((chunk, direction) => {
    const statements = direction === "toServer" ? statementsIn(chunk) : 0;
    sent += statements;
    if (statements > 0) lastSentAt = performance.now();
    return "pass";
  });
  const pool = new pg.Pool({ connectionString: proxy.url });
  const queue = createQueue({ jobs: defineJobs({ note: defineJob({ payload: z.object({}) }) }) });
  const worker = createWorker({ queue, db: drizzle(pool), handlers: { note: () => undefined } });
  await worker.start();
  await waitUntil(
    "the polls of the start are over",
    () => sent > 10 && performance.now() - lastSentAt > 500,
  );
  const before = sent;
  const startedAt = performance.now();
  await waitUntil("half a minute has passed", () => performance.now() - startedAt >= WINDOW_MS, {
    timeoutMs: WINDOW_MS + 5_000,
    intervalMs: 500,
  });
  const perMinute = ((sent - before) * 60_000) / WINDOW_MS;
  expect(perMinute).toBeGreaterThan(20);
  expect(perMinute).toBeLessThanOrEqual(70);
  await worker.stop();
  await pool.end();
  await proxy.close();
  await room.close();
});

/** Counts what is executed in a chunk of the protocol: Bind and Query messages. */
function statementsIn(chunk: Buffer): number {
  let count = 0;
  for (let at = 0; at + 5 <= chunk.length; at += 1 + chunk.readUInt32BE(at + 1)) {
    // A connection's first message has no type: it begins with the high byte of its length, a zero.
    if (chunk[at] === 0) return count;
    if (chunk[at] === "B".charCodeAt(0) || chunk[at] === "Q".charCodeAt(0)) count += 1;
  }
  return count;
}
