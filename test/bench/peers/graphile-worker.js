import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const BATCH = 10_000;
const logger = new Logger(() => () => {});

/** @param {import("../contender.js").ContenderOptions} options */
export function open({ url, concurrency, settings }) {
  const pool = new pg.Pool({ connectionString: url, max: concurrency + 2 });
  const report = (error) => process.stderr.write(`graphile-worker: ${error.message}\n`);
  pool.on("error", report);
  pool.on("connect", (client) => client.on("error", report));
  const utils = makeWorkerUtils({ pgPool: pool, logger });
  let runner;
  return {
    async install() {
      await (await utils).migrate();
    },
    async seed(count) {
      const { addJobs } = await utils;
      for (let first = 0; first < count; first += BATCH) {
        const length = Math.min(BATCH, count - first);
        await addJobs(
          Array.from({ length }, (_, index) => ({
            identifier: "bench",
            payload: { n: first + index, note: "a small payload" },
          })),
        );
      }
    },
    async enqueue(number) {
      await (await utils).addJob("bench", { n: number, note: "a small payload" });
    },
    async enqueueAt(number, dueAt) {
      const payload = { n: number, note: "a small payload" };
      await (await utils).addJob("bench", payload, { runAt: dueAt });
    },
    async start(handler) {
      const { localQueueSize, completeJobBatchDelay } = settings;
      runner = await run({
        preset: {
          worker: {
            concurrentJobs: concurrency,
            logger,
            ...(localQueueSize !== undefined && { localQueue: { size: localQueueSize } }),
            ...(completeJobBatchDelay !== undefined && {
              completeJobBatchDelay,
              failJobBatchDelay: completeJobBatchDelay,
            }),
          },
        },
        pgPool: pool,
        noHandleSignals: true,
        taskList: { bench: (payload) => handler(payload.n) },
      });
    },
    async isUnfinished() {
      const { rows } = await pool.query(
        "select exists (select from graphile_worker._private_jobs) as unfinished",
      );
      return rows[0].unfinished;
    },
    async stop() {
      await runner?.stop();
      await (await utils).release();
      await pool.end();
    },
  };
}
