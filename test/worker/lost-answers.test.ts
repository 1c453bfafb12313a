import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { createTcpProxy, type TcpProxy } from "../support/tcp-proxy.js";
import { openRoom, type Room } from "./room.js";

const queue = createQueue({ jobs: defineJobs({ work: defineJob({ payload: z.object({}) }) }) });

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

/** Lets the connection that claims fall silent at its first sweep, whose text is then sent, both ways, with nobody being told. */
function silenceClaims(proxy: TcpProxy, isHeard: boolean): void {
  const claiming = new Set<number>();
  let hasFallen = false;
  proxy.intercept((chunk, direction, connection) => {
    if (direction === "toClient") return "pass";
    // Each says who it is when it begins.
    if (chunk.includes("drizzle-queue main")) claiming.add(connection.id);
    else if (!hasFallen && claiming.has(connection.id) && chunk.includes("advisory_xact_lock")) {
      hasFallen = true;
      connection.silence();
      return isHeard ? "pass" : "drop";
    }
    return "pass";
  });
}

// postgres.js does not show its sockets: there the deadline has to do.
test.each([true, false])(
  "a claim that is lost on the way (heard: %s) does not take the whole deadline, nor an attempt",
  async (isHeard) => {
    const proxy = await createTcpProxy(room.url);
    const pool = new pg.Pool({ connectionString: proxy.url });
    const { id } = await queue.enqueueNow(room.db, "work", {});
    const worker = createWorker({
      queue,
      db: drizzle(pool),
      pollIntervalMs: 50,
      instrumentation: room.spy.listener,
      handlers: { work: () => undefined },
    });
    silenceClaims(proxy, isHeard);
    await worker.start();
    const lost = await room.spy.next("connection.lost", undefined, 15_000);
    expect(lost).toMatchObject({
      role: "main",
      error: { message: expect.stringMatching(/^No answer after \d+ ms, and the server has none/) },
    });
    await room.spy.next("job.done", ({ jobId }) => jobId === id);
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: 1 });
    expect(room.spy.all("connection.lost")).toHaveLength(1);
    const left = await room.rows(
      "select from pg_stat_activity where datname = current_database() and application_name = 'drizzle-queue main'",
    );
    // The lost one was ended: what the network still holds of it is not carried out later.
    expect(left).toHaveLength(1);
    proxy.cut();
    await worker.stop({ gracePeriodMs: 0 });
    await pool.end();
    await proxy.close();
  },
);
