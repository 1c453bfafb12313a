import { setTimeout as sleep } from "node:timers/promises";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createAdmin } from "drizzle-queue/admin";
import { createWorker, type HandlerFor } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { waitUntil } from "../support/wait-until.js";
import { createGate, openRoom, type Room } from "../worker/room.js";

const payload = z.object({ n: z.number() });
const queue = createQueue({
  jobs: defineJobs({
    mail: defineJob({ payload, queue: "mails", backoff: fixed({ delayMs: 0 }), leaseMs: 600 }),
    report: defineJob({ payload, queue: "reports" }),
  }),
});
const admin = createAdmin({ queue });
type Handlers = { [N in "mail" | "report"]?: HandlerFor<typeof queue, N, Room["db"]> };

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

/** One that polls so seldom that only a notification can be what wakes it, unless told otherwise. */
const workerWith = (handlers: Handlers = {}, pollIntervalMs = 60_000, throughPooler = false) =>
  createWorker({
    queue,
    db: room.db,
    pollIntervalMs,
    throughPooler,
    instrumentation: room.spy.listener,
    handlers: { mail: () => {}, report: () => {}, ...handlers },
  });

const enqueue = (name: "mail" | "report", n = 0) =>
  room.db.transaction((tx) => queue.enqueueMany(tx, [{ name, payload: { n } }]));
const statuses = async (name: "mail" | "report") => {
  const rows = await room.rows<{ status: string }>(
    "select status from queue_jobs where name = $1 order by id",
    [name],
  );
  return rows.map(({ status }) => status);
};

describe("a paused queue", () => {
  test("is claimed from by nobody, over a restart too, while others go on; after its end all that waited runs, in its order", async () => {
    const order: number[] = [];
    const first = workerWith({ mail: ({ payload: { n } }) => void order.push(n) });
    await first.start();
    expect(await admin.pauseQueue(room.db, "mails")).toBe("paused");
    for (let n = 1; n <= 3; n += 1) await enqueue("mail", n);
    await enqueue("report");
    await room.spy.next("job.done", ({ jobName }) => jobName === "report");
    await first.stop();

    await using second = workerWith({ mail: ({ payload: { n } }) => void order.push(n) });
    await second.start();
    await enqueue("mail", 4);
    await enqueue("report");
    await room.spy.next("job.done", ({ jobName }) => jobName === "report");
    expect(await statuses("mail")).toEqual(["queued", "queued", "queued", "queued"]);

    expect(await admin.resumeQueue(room.db, "mails")).toBe(true);
    for (let n = 1; n <= 4; n += 1)
      await room.spy.next("job.done", ({ jobName }) => jobName === "mail");
    expect(order).toEqual([1, 2, 3, 4]);
  });

  test("lets go on what runs, and takes back what is retried", async () => {
    const gate = createGate();
    let runs = 0;
    await using worker = workerWith({
      mail: async () => {
        runs += 1;
        if (runs > 1) return;
        await gate.opened;
        throw new Error("no luck");
      },
    });
    await worker.start();
    await enqueue("mail");
    await room.spy.next("job.started");
    await admin.pauseQueue(room.db, "mails");
    // Renewed meanwhile.
    await room.spy.next("leases.renewed");
    gate.open();
    await room.spy.next("attempt.errored");
    await waitUntil("it is queued", async () => (await statuses("mail"))[0] === "queued");
    await admin.resumeQueue(room.db, "mails");
    expect(await room.spy.next("job.done")).toMatchObject({ attempt: 2 });
  });

  test.each([
    ["of which somebody tells it", 60_000, false],
    ["which its next claim finds", 30, true],
  ])(
    "gets back what a worker has fetched ahead, %s, and no attempt is used",
    async (_, pollIntervalMs, pooled) => {
      const gate = createGate();
      const started: number[] = [];
      await using worker = createWorker({
        queue,
        db: room.db,
        only: ["mail"],
        concurrency: 2,
        pollIntervalMs,
        throughPooler: pooled,
        instrumentation: room.spy.listener,
        handlers: {
          mail: async ({ payload: { n } }) => {
            started.push(n);
            // As long as they are short, more are fetched ahead.
            if (n > 400) await gate.opened;
          },
        },
      });
      const items = Array.from({ length: 1_000 }, (__, n) => ({
        name: "mail" as const,
        payload: { n },
      }));
      await room.db.transaction((tx) => queue.enqueueMany(tx, items));
      await worker.start();
      const running = async () =>
        (await statuses("mail")).filter((status) => status === "running").length;
      await waitUntil(
        "slow ones are in the slots, and more is held",
        async () => started.length > 401 && (await running()) > 2,
      );
      await admin.pauseQueue(room.db, "mails");
      // Where nobody tells it, it finds out when it has room for a claim.
      if (pooled) gate.open();
      await waitUntil("no more is held than runs", async () => (await running()) <= 2);
      gate.open();
      await waitUntil("nothing runs", async () => (await running()) === 0);
      const count = started.length;
      expect(
        await room.rows("select from queue_jobs where status = 'queued' and attempts <> 0"),
      ).toEqual([]);
      expect(room.spy.all("queue.paused")).toMatchObject([{ queue: "mails" }]);
      await admin.resumeQueue(room.db, "mails");
      await room.spy.next("queue.resumed");
      await waitUntil("all are done", async () =>
        (await statuses("mail")).every((status) => status === "done"),
      );
      expect(count).toBeLessThan(1_000);
      expect(started).toHaveLength(1_000);
    },
  );

  test("has what was given back started soon after its end, however old, and without a poll", async () => {
    const gate = createGate();
    let started = 0;
    await using worker = createWorker({
      queue,
      db: room.db,
      only: ["mail"],
      concurrency: 2,
      pollIntervalMs: 60_000,
      handlers: {
        mail: async () => {
          started += 1;
          if (started > 400) await gate.opened;
        },
      },
    });
    await worker.start();
    // By then it has looked at everything, and its floors are near the present.
    await enqueue("mail");
    await waitUntil("it has begun", async () => started === 1);
    const items = Array.from({ length: 3_000 }, (_, n) => ({
      name: "mail" as const,
      payload: { n },
    }));
    await room.db.transaction((tx) => queue.enqueueMany(tx, items));
    const running = async () =>
      (await statuses("mail")).filter((status) => status === "running").length;
    await waitUntil(
      "slow ones are in the slots, and more is held",
      async () => started > 401 && (await running()) > 2,
    );
    await admin.pauseQueue(room.db, "mails");
    await waitUntil("no more is held than runs", async () => (await running()) <= 2);
    gate.open();
    await waitUntil("nothing runs", async () => (await running()) === 0);
    expect(started).toBeLessThan(3_000);
    // As if the pause had lasted: no near sweep reaches so far back.
    const givenBack = await room.rows(
      "update queue_jobs set available_at = now() - interval '5 minutes' where status = 'queued' and lease_version > 0 returning id",
    );
    expect(givenBack.length).toBeGreaterThan(0);
    await admin.resumeQueue(room.db, "mails");
    await waitUntil(
      "all are done",
      async () => (await statuses("mail")).every((status) => status === "done"),
      {
        timeoutMs: 20_000,
      },
    );
  });

  test("keeps the jobs of a lost worker until its end", async () => {
    await enqueue("mail");
    await room.rows(
      "update queue_jobs set status = 'running', attempts = 1, lease_version = 1, lease_until = now() - interval '1 s'",
    );
    await admin.pauseQueue(room.db, "mails");
    await using worker = workerWith({}, 30);
    await worker.start();
    for (let nth = 0; nth < 3; nth += 1) {
      await enqueue("report");
      await room.spy.next("job.done");
    }
    expect(await statuses("mail")).toEqual(["running"]);
    await admin.resumeQueue(room.db, "mails");
    expect(await room.spy.next("job.done")).toMatchObject({ jobName: "mail", attempt: 2 });
  });

  test("is paused and resumed through a pooler too, where nobody listens", async () => {
    await admin.pauseQueue(room.db, "mails");
    await using worker = workerWith({}, 30, true);
    await worker.start();
    await enqueue("mail");
    await enqueue("report");
    await room.spy.next("job.done", ({ jobName }) => jobName === "report");
    expect(await statuses("mail")).toEqual(["queued"]);
    await admin.resumeQueue(room.db, "mails");
    await room.spy.next("job.done", ({ jobName }) => jobName === "mail");
  });

  test("stays paused to a worker that is woken for another queue: nothing is told to have ended", async () => {
    await using worker = workerWith();
    await worker.start();
    await enqueue("report");
    await room.spy.next("job.done");
    await admin.pauseQueue(room.db, "mails");
    await room.spy.next("queue.paused");
    // Its row changes with the pause, and for a second after that it polls closely.
    await sleep(2_500);
    for (let n = 0; n < 5; n += 1) {
      await enqueue("report");
      await room.spy.next("job.done");
    }
    expect(room.spy.all("queue.paused")).toHaveLength(1);
    expect(room.spy.all("queue.resumed")).toEqual([]);
  });

  test("has nobody notified of its jobs, so that enqueues do not pay for it", async () => {
    await using worker = workerWith();
    await worker.start();
    const isToldOf = (name: string) => async () => {
      const rows = await room.rows("select from queue_workers where waiting and $1 = any(queues)", [
        name,
      ]);
      return rows.length === 1;
    };
    await waitUntil("the worker waits", isToldOf("mails"));
    await admin.pauseQueue(room.db, "mails");
    // A claim of whatever queue finds out.
    await enqueue("report");
    await room.spy.next("job.done");
    await waitUntil("it waits for the other only", async () => !(await isToldOf("mails")()));
    expect(await isToldOf("reports")()).toBe(true);
    await admin.resumeQueue(room.db, "mails");
    await waitUntil("it waits for both", isToldOf("mails"));
    await enqueue("mail");
    await room.spy.next("job.done", ({ jobName }) => jobName === "mail");
  });
});

describe("the calls", () => {
  test("say whether they changed anything, and which queues are paused since when", async () => {
    const before = Date.now();
    expect(await admin.resumeQueue(room.db, "mails")).toBe(false);
    expect(await admin.pauseQueue(room.db, "mails")).toBe("paused");
    const paused = await admin.listPausedQueues(room.db);
    expect(paused).toEqual([{ queue: "mails", pausedAt: expect.any(Date) }]);
    expect(Math.abs(Number(paused[0]?.pausedAt) - before)).toBeLessThan(10_000);
    expect(await admin.pauseQueue(room.db, "mails")).toBe("unchanged");
    expect(await admin.listPausedQueues(room.db)).toEqual(paused);
    // No definition, job or worker has it: it may be misspelt.
    expect(await admin.pauseQueue(room.db, "a \"queue\", 'quoted'")).toBe("paused_unknown");
    expect(await admin.resumeQueue(room.db, "mails")).toBe(true);
    expect((await admin.listPausedQueues(room.db)).map(({ queue: of }) => of)).toEqual([
      "a \"queue\", 'quoted'",
    ]);
  });

  test("know a queue that only a job or a worker has", async () => {
    await queue.enqueueNow(room.db, "mail", { n: 1 }, { queue: "urgent" });
    expect(await admin.pauseQueue(room.db, "urgent")).toBe("paused");
    await room.rows(
      "insert into queue_workers (id, queues, names, poll_interval_ms) values ('w', '{vip}', '{}', 1000)",
    );
    expect(await admin.pauseQueue(room.db, "vip")).toBe("paused");
    expect(await admin.pauseQueue(room.db, "mail")).toBe("paused_unknown");
  });

  test("leave no row behind that each claim would read", async () => {
    await admin.pauseQueue(room.db, "mails");
    await admin.resumeQueue(room.db, "mails");
    expect(await room.rows("select from queue_controls")).toEqual([]);
  });

  test("take effect with the caller's transaction", async () => {
    await using worker = workerWith({}, 30);
    await worker.start();
    await room.db.transaction(async (tx) => {
      await admin.pauseQueue(tx, "mails");
      await queue.enqueueNow(room.db, "mail", { n: 1 });
      await room.spy.next("job.done");
    });
    await enqueue("mail", 2);
    await enqueue("report");
    await room.spy.next("job.done", ({ jobName }) => jobName === "report");
    expect(await statuses("mail")).toEqual(["done", "queued"]);
  });

  test.each(["", "x".repeat(129), 7])("refuse %j as a queue's name", async (name) => {
    for (const call of [admin.pauseQueue, admin.resumeQueue])
      await expect(call(room.db, name as string)).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});
