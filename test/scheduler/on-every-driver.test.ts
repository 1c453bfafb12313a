import { createScheduler } from "drizzle-queue/scheduler";
import { queueJobs } from "drizzle-queue/schema";
import { expect, test } from "vitest";
import { waitUntil } from "../support/wait-until.js";
import { DATABASES } from "../worker/drivers.js";
import { at, queue } from "./scheduler-fixture.js";

test.each(DATABASES)(
  "on $driver two schedulers enqueue each occurrence once",
  { timeout: 60_000 },
  async ({ open }) => {
    const { db, close } = await open();
    const schedules = {
      tick: { job: "note", cron: "* * * * * *", payload: at, overlap: "allow" },
      yearly: { job: "note", cron: "0 0 1 1 *", timeZone: "Asia/Kolkata", payload: at },
    } as const;
    const [first, second] = [1, 2].map(() => createScheduler({ queue, db, schedules }));
    await Promise.all([first?.start(), second?.start()]);
    const times = async () => {
      const rows = await db.select().from(queueJobs).orderBy(queueJobs.id);
      return rows.map((row) => Date.parse((row.payload as { at: string }).at));
    };
    await waitUntil("there are three jobs", async () => (await times()).length >= 3);
    await Promise.all([first?.stop(), second?.stop()]);
    const due = await times();
    expect(due).toEqual(due.map((_, index) => (due[0] ?? 0) + index * 1_000));
    await close();
  },
);
