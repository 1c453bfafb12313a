import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { createTcpProxy, type TcpProxy } from "../support/tcp-proxy.js";
import { DRIVERS } from "./drivers.js";
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

const cases = DRIVERS.flatMap(({ driver, open }) =>
  [true, false].map((isHeard) => ({ driver, open, isHeard })),
);

test.each(cases)(
  "on $driver a claim that is lost on the way (heard: $isHeard) does not take the whole deadline",
  async ({ open, isHeard }) => {
    const proxy = await createTcpProxy(room.url);
    const app = open(proxy.url, { max: 1 });
    const worker = createWorker({
      queue,
      db: app.db,
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
    const { id } = await queue.enqueueNow(room.db, "work", {});
    await room.spy.next("job.done", ({ jobId }) => jobId === id);
    expect(room.spy.all("connection.lost")).toHaveLength(1);
    proxy.cut();
    await worker.stop({ gracePeriodMs: 0 });
    await app.close();
    await proxy.close();
  },
);
