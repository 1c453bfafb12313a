import { sql } from "drizzle-orm";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { createTcpProxy, type TcpProxy } from "../support/tcp-proxy.js";
import { DRIVERS } from "./drivers.js";
import { openRoom, type Room } from "./room.js";

const queue = createQueue({
  jobs: defineJobs({
    work: defineJob({
      payload: z.object({}),
      leaseMs: 1_000,
      timeoutMs: null,
      backoff: fixed({ delayMs: 0 }),
    }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
  await room.rows("create table effects (attempt int)");
});
afterEach(async () => {
  await room.clear();
  await room.rows("truncate effects");
});
afterAll(() => room.close());

/** What the app's connection says last, or asks last without hearing the answer. */
interface Silence {
  readonly at: RegExp;
  /** Whether the server still hears that statement. */
  readonly isHeard: boolean;
  readonly attempts: number;
}

const GUARD = /lease_version = /;
const SILENCES: Readonly<Record<string, Silence>> = {
  "before BEGIN is heard": { at: /\bbegin\b/i, isHeard: false, attempts: 2 },
  "before the effect is heard": { at: /insert into effects/, isHeard: false, attempts: 2 },
  "before the effect is answered": { at: /insert into effects/, isHeard: true, attempts: 2 },
  "before the guard is heard": { at: GUARD, isHeard: false, attempts: 2 },
  "before the guard is answered": { at: GUARD, isHeard: true, attempts: 2 },
  "before COMMIT is heard": { at: /\bcommit\b/i, isHeard: false, attempts: 2 },
  "before COMMIT is answered": { at: /\bcommit\b/i, isHeard: true, attempts: 1 },
};

/** Lets one connection of the app's pool fall silent, both ways, with nobody being told. */
function silenceOne(proxy: TcpProxy, { at, isHeard }: Silence): () => boolean {
  const own = new Set<number>();
  let hasFallen = false;
  proxy.intercept((chunk, direction, connection) => {
    const text = chunk.toString("latin1");
    // The worker's own connections say who they are when they begin.
    if (text.includes("drizzle-queue ")) own.add(connection.id);
    if (hasFallen || own.has(connection.id) || direction === "toClient" || !at.test(text))
      return "pass";
    hasFallen = true;
    connection.silence();
    return isHeard ? "pass" : "drop";
  });
  return () => hasFallen;
}

const cases = DRIVERS.flatMap(({ driver, open }) =>
  Object.entries(SILENCES)
    // postgres.js does not tell waiting for its pool from waiting for BEGIN.
    .filter(([when]) => driver === "node-postgres" || when !== "before BEGIN is heard")
    .map(([when, silence]) => ({ driver, open, when, silence })),
);

test.each(cases)(
  "on $driver a commit without a timeout whose connection falls silent $when gives back its slot; the effect is there once",
  async ({ open, silence }) => {
    const proxy = await createTcpProxy(room.url);
    const app = open(proxy.url, { max: 2 });
    const hasFallen = silenceOne(proxy, silence);
    const worker = createWorker({
      queue,
      db: app.db,
      concurrency: 1,
      pollIntervalMs: 50,
      instrumentation: room.spy.listener,
      handlers: {
        work: async ({ job, commit }) => {
          await commit(async (tx) => {
            await tx.execute(sql`insert into effects values (${job.attempt})`);
          });
        },
      },
    });
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "work", {});
    await room.spy.next("job.done", ({ jobId }) => jobId === id, 25_000);
    expect(hasFallen()).toBe(true);
    expect(await room.job(id)).toMatchObject({ status: "done", attempts: silence.attempts });
    expect(await room.rows("select attempt from effects")).toEqual([{ attempt: silence.attempts }]);
    // Its only slot is free again.
    const next = await queue.enqueueNow(room.db, "work", {});
    await room.spy.next("job.done", ({ jobId }) => jobId === next.id, 25_000);
    proxy.cut();
    await worker.stop({ gracePeriodMs: 0 });
    await app.close();
    await proxy.close();
  },
);
