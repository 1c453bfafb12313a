/**
 * An effect outside of the database: the destination refuses the second time.
 *
 * Nobody can undo a call that another service has carried out, so an attempt
 * that dies right after it must be able to call again without harm. The job's
 * idempotency key is the same at every attempt; the service knows it.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import * as queueSchema from "drizzle-queue/schema";
import { createWorker } from "drizzle-queue/worker";
import { z } from "zod";
import { nextEvent } from "../support/next-event.js";
import { openExample } from "../support/open-example.js";

// The other side: a payment service that remembers the keys that it has seen.
const payments = new Map<string, number>();
let calls = 0;
const service = createServer((request, response) => {
  const key = String(request.headers["idempotency-key"]);
  calls++;
  const isNew = !payments.has(key);
  if (isNew) payments.set(key, 20);
  console.log(`Service: call ${calls}, key ${key}: ${isNew ? "paid" : "refused, paid before"}`);
  response.writeHead(isNew ? 201 : 409).end();
});
service.listen(0, "127.0.0.1");
await once(service, "listening");
const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;

const jobs = defineJobs({
  charge: defineJob({
    payload: z.object({ invoice: z.string() }),
    idempotencyKey: ({ invoice }) => invoice,
    backoff: fixed({ delayMs: 50 }),
  }),
});
const queue = createQueue({ jobs });

await using example = await openExample(queueSchema);
const events = nextEvent();
const worker = createWorker({
  queue,
  db: example.db,
  instrumentation: events.instrumentation,
  handlers: {
    charge: async ({ job, signal }) => {
      const headers = { "idempotency-key": job.idempotencyKey ?? "" };
      const answer = await fetch(url, { method: "POST", headers, signal });
      // 409 says that an earlier attempt got through: this is success.
      if (!answer.ok && answer.status !== 409) throw new Error(`The service says ${answer.status}`);
      if (job.attempt === 1) throw new Error("the answer was lost");
    },
  },
});
await worker.start();
await queue.enqueueNow(example.db, "charge", { invoice: "INV-7" });
const errored = await events.next("attempt.errored");
console.log(`Attempt ${errored.attempt}: ${errored.error.message}`);
const done = await events.next("job.done");
console.log(`Attempt ${done.attempt}: done`);
console.log(`Calls: ${calls}, payments: ${payments.size}`);
await worker.stop();
service.close();
service.closeAllConnections();
