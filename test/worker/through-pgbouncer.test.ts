import { sql } from "drizzle-orm";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { DRIVERS } from "./drivers.js";
import { hasPgBouncer, type PgBouncer, startPgBouncer } from "./pgbouncer.js";
import { openRoom, type Room } from "./room.js";

const jobs = defineJobs({
  effect: defineJob({
    payload: z.object({ n: z.number() }),
    idempotencyKey: ({ n }) => String(n),
    leaseMs: 1_000,
    backoff: fixed({ delayMs: 50 }),
  }),
});

const missing = hasPgBouncer() ? "" : " (skipped: PgBouncer is missing, apt-get install pgbouncer)";

describe.skipIf(!hasPgBouncer()).each(DRIVERS)(
  `through PgBouncer in transaction mode, on $driver${missing}`,
  ({ open }) => {
    let room: Room;
    let bouncer: PgBouncer;

    beforeAll(async () => {
      room = await openRoom();
      await room.rows("create table effects (n integer not null)");
      // Fewer server connections than the workers have clients: sessions change hands all the time.
      bouncer = await startPgBouncer(room.url, 3);
    });
    afterEach(() => room.clear());
    afterAll(async () => {
      await bouncer.stop();
      await room.close();
    });

    test("two workers do every job once, renew, retry, and find what arrives later", async () => {
      const { spy } = room;
      const queue = createQueue({ jobs, instrumentation: spy.listener });
      const apps = [1, 2].map(() => open(bouncer.url, { max: 4, throughPooler: true }));
      const workers = apps.map(({ db }) =>
        createWorker({
          queue,
          db,
          throughPooler: true,
          concurrency: 4,
          pollIntervalMs: 200,
          handlers: {
            async effect({ payload: { n }, job, commit, signal }) {
              if (n === 1 && job.attempt === 1) throw new Error("once");
              if (n === 2) await renewedThreeTimes(() => spy.all("leases.renewed").length);
              signal.throwIfAborted();
              await commit(async (tx) => {
                await tx.execute(sql`insert into effects (n) values (${n})`);
              });
            },
          },
        }),
      );
      await Promise.all(workers.map((worker) => worker.start()));
      const items = Array.from({ length: 200 }, (_, n) => ({
        name: "effect" as const,
        payload: { n },
      }));
      await room.db.transaction((tx) => queue.enqueueMany(tx, items.slice(0, 199)));
      await waitUntil("199 are done", () => spy.all("job.done").length === 199, {
        timeoutMs: 20_000,
      });
      await room.db.transaction((tx) => queue.enqueue(tx, "effect", { n: 199 }));
      await waitUntil("the last one is done", () => spy.all("job.done").length === 200);
      await Promise.all(workers.map((worker) => worker.stop()));
      await Promise.all(apps.map(({ close }) => close()));

      expect(spy.all("statement.errored")).toEqual([]);
      expect(spy.all("lease.lost")).toEqual([]);
      expect(spy.all("attempt.errored")).toHaveLength(1);
      expect(await room.rows("select n from effects order by n")).toEqual(
        Array.from({ length: 200 }, (_, n) => ({ n })),
      );
    });
  },
);

async function renewedThreeTimes(count: () => number): Promise<void> {
  const before = count();
  await waitUntil("its lease was renewed three times", () => count() >= before + 3);
}
