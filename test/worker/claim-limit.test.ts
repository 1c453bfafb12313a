import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { createTcpProxy } from "../support/tcp-proxy.js";
import { waitUntil } from "../support/wait-until.js";
import { createGate, openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({ note: defineJob({ payload: z.object({ n: z.number() }) }) }),
});
const notes = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ name: "note" as const, payload: { n } }));

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
beforeEach(() => room.clear());
afterAll(() => room.close());

// Through a pooler no plan is kept and none is forced to be generic.
test.each([
  ["on sessions of its own", false],
  ["through a pooler", true],
])(
  "%s a worker of five slots claims five of a hundred jobs under statistics of a single row",
  async (_where, throughPooler) => {
    await room.rows("alter table queue_jobs set (autovacuum_enabled = off)");
    await queue.enqueueNow(room.db, "note", { n: 0 });
    await room.rows("analyze queue_jobs");
    await room.db.transaction((tx) => queue.enqueueMany(tx, notes(100)));
    const gate = createGate();
    const worker = createWorker({
      queue,
      db: room.db,
      concurrency: 5,
      throughPooler,
      instrumentation: room.spy.listener,
      handlers: { note: () => gate.opened },
    });
    await worker.start();
    for (let n = 0; n < 5; n += 1) await room.spy.next("job.started");
    expect(
      await room.rows("select attempts, count(*)::int from queue_jobs group by 1 order by 1"),
    ).toEqual([
      { attempts: 0, count: 96 },
      { attempts: 1, count: 5 },
    ]);
    expect(room.spy.all("job.claimed")).toHaveLength(5);
    const stopping = worker.stop();
    gate.open();
    await stopping;
  },
);

test("a worker whose slots are all taken sends no claim, however many jobs wait", async () => {
  const proxy = await createTcpProxy(room.url);
  const pool = new pg.Pool({ connectionString: proxy.url });
  let claims = 0;
  proxy.intercept((chunk, direction) => {
    // Named statements: only their first sending carries the text, each carries the name.
    if (direction === "toServer" && /drizzle_queue_\w*(claim|sweep)/.test(chunk.toString("latin1")))
      claims += 1;
    return "pass";
  });
  const gate = createGate();
  const pollIntervalMs = 20;
  const worker = createWorker({
    queue,
    db: drizzle(pool),
    concurrency: 2,
    pollIntervalMs,
    instrumentation: room.spy.listener,
    handlers: { note: () => gate.opened },
  });
  await worker.start();
  await waitUntil("it polls, with slots free", () => claims > 20);
  await room.db.transaction((tx) => queue.enqueueMany(tx, notes(50)));
  for (let n = 0; n < 2; n += 1) await room.spy.next("job.started");
  const before = claims;
  const since = performance.now();
  await waitUntil("fifty polls' time has passed", () => performance.now() - since > 1_000);
  expect(claims).toBe(before);
  const stopping = worker.stop();
  gate.open();
  await stopping;
  await pool.end();
  await proxy.close();
});
