import { createPostgresBackend, Queue, Worker } from "bullmq";

const BATCH = 1_000;
const QUEUE = "bench";

/** @param {import("../contender.js").ContenderOptions} options */
export function open({ url, concurrency, settings }) {
  const isPostgres = url.startsWith("postgres");
  const backend = isPostgres ? createPostgresBackend : undefined;
  const connection = isPostgres
    ? { connectionString: url, max: concurrency + 2, migrate: true }
    : { host: "127.0.0.1", port: Number(new URL(url).port), maxRetriesPerRequest: null };
  let queue;
  let worker;
  const open = () => (queue ??= new Queue(QUEUE, { connection }, backend));
  return {
    async install() {
      await open().waitUntilReady();
    },
    async seed(count) {
      for (let first = 0; first < count; first += BATCH) {
        const length = Math.min(BATCH, count - first);
        await open().addBulk(
          Array.from({ length }, (_, index) => ({
            name: "bench",
            data: { n: first + index, note: "a small payload" },
          })),
        );
      }
    },
    async enqueue(number) {
      await open().add("bench", { n: number, note: "a small payload" });
    },
    async enqueueAt(number, dueAt) {
      const delay = Math.max(0, dueAt.getTime() - Date.now());
      await open().add("bench", { n: number, note: "a small payload" }, { delay });
    },
    async start(handler) {
      const keep = settings.removeOnComplete === true ? { removeOnComplete: { count: 0 } } : {};
      worker = new Worker(
        QUEUE,
        async (job) => handler(job.data.n),
        { connection, concurrency, ...keep },
        backend,
      );
      worker.on("error", (error) => process.stderr.write(`bullmq: ${error.message}\n`));
      await worker.waitUntilReady();
    },
    async isUnfinished() {
      const counts = await open().getJobCounts("wait", "active", "delayed", "prioritized");
      return Object.values(counts).some((count) => count > 0);
    },
    async stop() {
      await worker?.close(true);
      await queue?.close();
    },
  };
}
