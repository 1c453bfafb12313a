import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs } from "drizzle-queue";
import { createScheduler, type Schedules } from "drizzle-queue/scheduler";
import pg from "pg";
import { z } from "zod";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { createEventSpy, type EventSpy } from "../support/events.js";

export const jobs = defineJobs({
  note: defineJob({ payload: z.object({ at: z.iso.datetime() }) }),
  keyed: defineJob({ payload: z.object({ day: z.string() }), idempotencyKey: ({ day }) => day }),
});
export const queue = createQueue({ jobs });

/** A payload that tells of which occurrence it is. */
export const at = ({ dueAt }: { readonly dueAt: Date }) => ({ at: dueAt.toISOString() });

/** A job of a schedule, as its row tells. */
export interface JobOfSchedule {
  readonly id: number;
  readonly name: string;
  readonly at: string;
}

/** What a test file of the scheduler works with. */
export interface ScheduleRoom {
  readonly database: TestDatabase;
  readonly db: ReturnType<typeof drizzle>;
  readonly spy: EventSpy;
  /** A scheduler that tells its events to the spy; stopped by `clear`. */
  create(schedules: Schedules<typeof jobs>, url?: string): ReturnType<typeof createScheduler>;
  /** Moves a schedule's row, or makes it, so many seconds into the past. */
  moveBack(schedule: string, seconds: number): Promise<void>;
  jobs(): Promise<readonly JobOfSchedule[]>;
  clear(): Promise<void>;
  close(): Promise<void>;
}

/** Opens a database for the tests of a file. */
export async function openScheduleRoom(): Promise<ScheduleRoom> {
  const database = await createDatabase();
  const db = drizzle(database.pool);
  let spy = createEventSpy();
  const stops: (() => Promise<void>)[] = [];
  return {
    database,
    db,
    get spy() {
      return spy;
    },
    create(schedules, url) {
      const pool = new pg.Pool({ connectionString: url ?? database.url, max: 2 });
      const scheduler = createScheduler({
        queue,
        db: drizzle(pool),
        schedules,
        instrumentation: spy.listener,
      });
      stops.push(async () => {
        await scheduler.stop();
        await pool.end();
      });
      return scheduler;
    },
    async moveBack(schedule, seconds) {
      await database.pool.query(
        `insert into queue_schedules (name, last_due_at) values ($1, date_trunc('second', now()) - $2 * interval '1 second')
        on conflict (name) do update set last_due_at = excluded.last_due_at`,
        [schedule, seconds],
      );
    },
    async jobs() {
      const { rows } = await database.pool.query<JobOfSchedule>(
        "select id::int, name, payload->>'at' as at from queue_jobs order by id",
      );
      return rows;
    },
    async clear() {
      await Promise.all(stops.splice(0).map((stop) => stop()));
      await database.pool.query("truncate queue_jobs, queue_schedules, queue_processed_keys");
      spy = createEventSpy();
    },
    close: () => database.drop(),
  };
}
