import pg from "pg";
import { PgBoss } from "pg-boss";

const BATCH = 10_000;
const QUEUE = "bench";

/** @param {import("../contender.js").ContenderOptions} options */
export function open({ url, concurrency, settings }) {
  const boss = new PgBoss({ connectionString: url, max: concurrency + 2 });
  boss.on("error", (error) => process.stderr.write(`pg-boss: ${error.message}\n`));
  const asking = new pg.Pool({ connectionString: url, max: 1 });
  let started;
  const begin = () => (started ??= boss.start());
  return {
    async install() {
      await begin();
      await boss.createQueue(QUEUE);
    },
    async seed(count) {
      await begin();
      for (let first = 0; first < count; first += BATCH) {
        const length = Math.min(BATCH, count - first);
        await boss.insert(
          QUEUE,
          Array.from({ length }, (_, index) => ({
            data: { n: first + index, note: "a small payload" },
          })),
        );
      }
    },
    async enqueue(number) {
      await begin();
      await boss.send(QUEUE, { n: number, note: "a small payload" });
    },
    async enqueueAt(number, dueAt) {
      await begin();
      await boss.send(QUEUE, { n: number, note: "a small payload" }, { startAfter: dueAt });
    },
    async start(handler) {
      await begin();
      const work = settings.work ?? { localConcurrency: concurrency };
      // A batch is one call of the handler. No more of its jobs run side by side than
      // make up everybody's concurrency with the other batches.
      const lanes = Math.ceil(concurrency / work.localConcurrency);
      await boss.work(QUEUE, work, async (jobs) => {
        if (jobs.length === 1) return handler(jobs[0].data.n);
        const rest = jobs.values();
        const lane = async () => {
          for (const job of rest) await handler(job.data.n);
        };
        await Promise.all(Array.from({ length: lanes }, lane));
      });
    },
    async isUnfinished() {
      const { rows } = await asking.query(
        "select exists (select from pgboss.job where name = 'bench' and state < 'completed') as unfinished",
      );
      return rows[0].unfinished;
    },
    async stop() {
      await boss.stop({ graceful: false });
      await asking.end();
    },
  };
}
