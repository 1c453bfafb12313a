import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { drizzle } from "drizzle-orm/node-postgres";
import { expect, test } from "vitest";
import { createDatabase } from "../support/database.js";
import { waitUntil } from "../support/wait-until.js";
import { spawnWorkerProcess } from "../support/worker-process.js";
import { queue } from "./processes/jobs.js";

test("a retry after an external effect does not repeat the business operation", async () => {
  const database = await createDatabase();
  // The destination: it does what it is asked for once per key, and refuses a second time.
  const calls: string[] = [];
  const operations = new Map<string, number>();
  const destination = createServer((request, response) => {
    const key = String(request.headers["idempotency-key"]);
    calls.push(key);
    const isNew = !operations.has(key);
    if (isNew) operations.set(key, 1);
    response.writeHead(isNew ? 201 : 409).end();
  }).listen(0, "127.0.0.1");
  await once(destination, "listening");
  const script = new URL("./processes/calling-worker-process.ts", import.meta.url);
  const env = {
    DATABASE_URL: database.url,
    DESTINATION_URL: `http://127.0.0.1:${(destination.address() as AddressInfo).port}/`,
  };
  const { id } = await queue.enqueueNow(drizzle(database.pool), "work", { n: 7 });

  // The first worker dies between the effect and the completion.
  const first = spawnWorkerProcess(script, { env: { ...env, HANG: "1" } });
  expect(await first.waitFor("called")).toMatchObject({ status: 201, attempt: 1 });
  first.kill("SIGKILL");
  await first.exit;
  const second = spawnWorkerProcess(script, { env });
  expect(await second.waitFor("called")).toMatchObject({ status: 409, attempt: 2 });
  await waitUntil("the job is done", async () => {
    const { rows } = await database.pool.query("select from queue_jobs where status = 'done'");
    return rows.length === 1;
  });

  expect(calls).toEqual(["work-7", "work-7"]);
  expect([...operations]).toEqual([["work-7", 1]]);
  const { rows } = await database.pool.query(
    "select attempts, lease_version from queue_jobs where id = $1",
    [id],
  );
  expect(rows).toEqual([{ attempts: 2, lease_version: 2 }]);
  const { rows: keys } = await database.pool.query(
    "select idempotency_key, job_id::int from queue_processed_keys",
  );
  expect(keys).toEqual([{ idempotency_key: "work-7", job_id: id }]);

  second.kill("SIGKILL");
  await second.exit;
  destination.close();
  await database.drop();
});
