import { drizzle } from "drizzle-orm/node-postgres";
import { createWorker } from "drizzle-queue/worker";
import { expect, test } from "vitest";
import { createDatabase } from "../support/database.js";
import { createEventSpy } from "../support/events.js";
import { spawnWorkerProcess } from "../support/worker-process.js";
import { queue } from "./processes/jobs.js";

test("a job whose every attempt throws starts maxAttempts times and becomes failed", async () => {
  const database = await createDatabase();
  const db = drizzle(database.pool);
  const spy = createEventSpy();
  const attempts: number[] = [];
  const worker = createWorker({
    queue,
    db,
    only: ["work"],
    instrumentation: spy.listener,
    handlers: {
      work: ({ job }) => {
        attempts.push(job.attempt);
        throw new Error("no luck");
      },
    },
  });
  await worker.start();
  const { id } = await queue.enqueueNow(db, "work", { n: 1 });
  await spy.next("job.failed");
  await worker.stop();

  expect(attempts).toEqual([1, 2, 3]);
  const { rows } = await database.pool.query(
    `select status, outcome, attempts, last_error, finished_at is not null as is_finished,
       lease_until is null as is_free from queue_jobs where id = $1`,
    [id],
  );
  expect(rows).toEqual([
    {
      status: "failed",
      outcome: "failed",
      attempts: 3,
      last_error: "Error: no luck",
      is_finished: true,
      is_free: true,
    },
  ]);
  await database.drop();
});

test("a job whose every attempt ends in a crash starts maxAttempts times and becomes failed", async () => {
  const database = await createDatabase();
  const { id } = await queue.enqueueNow(drizzle(database.pool), "poison", {});
  const script = new URL("./processes/self-killing-worker-process.ts", import.meta.url);
  const env = { DATABASE_URL: database.url };
  const isFailed = async () => {
    const { rows } = await database.pool.query("select from queue_jobs where status = 'failed'");
    return rows.length === 1;
  };

  // A supervisor that starts a new process whenever one has died.
  const attempts: unknown[] = [];
  for (let crashes = 0; crashes < 3; crashes += 1) {
    const worker = spawnWorkerProcess(script, { env });
    attempts.push((await worker.waitFor("poisoned"))["attempt"]);
    expect(await worker.exit).toEqual({ code: null, signal: "SIGKILL" });
    expect(await isFailed()).toBe(false);
  }
  // The worker that finds no attempt left buries the job instead of running it.
  const last = spawnWorkerProcess(script, { env });
  await last.waitFor("started");
  await queue.enqueueNow(drizzle(database.pool), "innocent", {});
  await expect.poll(isFailed, { timeout: 5_000, interval: 50 }).toBe(true);

  expect(attempts).toEqual([1, 2, 3]);
  const { rows } = await database.pool.query(
    `select status, outcome, attempts, lease_until is null as is_free, left(last_error, 13) as error,
       jsonb_array_length(error_history) as errors from queue_jobs where id = $1`,
    [id],
  );
  expect(rows).toEqual([
    {
      status: "failed",
      outcome: "failed",
      attempts: 3,
      is_free: true,
      error: "LEASE_EXPIRED",
      errors: 3,
    },
  ]);
  await expect
    .poll(async () => {
      const { rows: others } = await database.pool.query(
        "select status from queue_jobs where name = 'innocent'",
      );
      return others;
    })
    .toEqual([{ status: "done" }]);
  last.kill("SIGKILL");
  await last.exit;
  await database.drop();
});
