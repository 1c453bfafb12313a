import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createTcpProxy } from "../support/tcp-proxy.js";
import { waitUntil } from "../support/wait-until.js";
import { at, openScheduleRoom, type ScheduleRoom } from "./scheduler-fixture.js";

const yearly = { job: "note", cron: "0 0 1 1 *", payload: at } as const;
const tick = { job: "note", cron: "* * * * * *", payload: at } as const;

let room: ScheduleRoom;
beforeAll(async () => {
  room = await openScheduleRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const count = async (text: string): Promise<number> => {
  const { rows } = await room.database.pool.query<{ n: number }>(
    `select count(*)::int as n ${text}`,
  );
  return rows[0]?.n ?? 0;
};

describe("with many schedules", () => {
  test("a scheduler begins over a slow network, and their rows tell what comes next", async () => {
    const proxy = await createTcpProxy(room.database.url);
    proxy.delay(15);
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`s${n}`, yearly]));
    await room.create({ ...many, tick }, proxy.url).start();
    await waitUntil("it runs", async () => (await room.jobs()).length > 0);
    expect(await count("from queue_schedules where next_due_at is not null")).toBe(501);
    expect(room.spy.all("statement.errored")).toEqual([]);
    await room.clear();
    await proxy.close();
  });

  test("a slow turn does not put off what is due after it", async () => {
    await room.database.pool.query(`
      create function be_slow() returns trigger language plpgsql as
        $$ begin if new.name = 'keyed' then perform pg_sleep(1.2); end if; return new; end $$;
      create trigger be_slow before insert on queue_jobs for each row execute function be_slow()`);
    const day = ({ dueAt }: { readonly dueAt: Date }) => ({ day: dueAt.toISOString() });
    await room
      .create({
        even: { ...tick, cron: "*/2 * * * * *" },
        slow: { job: "keyed", cron: "*/4 * * * * *", payload: day },
      })
      .start();
    await waitUntil(
      "two were slow",
      async () => (await count("from queue_jobs where name = 'keyed'")) >= 2,
    );
    await waitUntil(
      "others follow",
      async () => (await count("from queue_jobs where name = 'note'")) >= 5,
    );
    const { rows } = await room.database.pool.query<{ late: number }>(
      `select date_part('epoch', created_at - (payload->>'at')::timestamptz) as late
         from queue_jobs where name = 'note' order by id`,
    );
    // Its turn comes first in its second; the one behind it takes 1.2 s.
    expect(Math.max(...rows.map(({ late }) => late))).toBeLessThan(0.8);
    await room.clear();
    await room.database.pool.query("drop function be_slow cascade");
  });

  test("a row that somebody is making holds up its own schedule only", async () => {
    await room.create({ tick }).start();
    await waitUntil("tick has its row", async () => (await count("from queue_schedules")) === 1);
    const client = await room.database.pool.connect();
    await client.query("begin");
    await client.query("insert into queue_schedules (name, last_due_at) values ('other', now())");
    const before = (await room.jobs()).length;
    await room.create({ another: tick, other: tick, tick, zeroth: tick }).start();
    expect(await room.spy.next("statement.errored")).toMatchObject({
      statement: "begin_schedules",
      error: { code: "55P03" },
    });
    await waitUntil("tick goes on", async () => (await room.jobs()).length > before + 2);
    await waitUntil(
      "the other new ones have begun",
      async () => (await count("from queue_schedules")) === 3,
    );
    await client.query("rollback");
    client.release();
    await waitUntil("the last has begun", async () => (await count("from queue_schedules")) === 4);
  });

  test("rows that are made and do not appear are told of, and not made again without a pause", async () => {
    await room.database.pool.query(`
      create function swallow() returns trigger language plpgsql as $$ begin return null; end $$;
      create trigger swallow before insert on queue_schedules for each row execute function swallow()`);
    await room.create({ tick }).start();
    expect(await room.spy.next("statement.errored")).toMatchObject({
      statement: "begin_schedules",
      error: { message: expect.stringContaining("keeps them away") },
      retryInMs: expect.toSatisfy((ms: number) => ms >= 500),
    });
    expect(await count("from queue_jobs")).toBe(0);
    await room.database.pool.query("drop function swallow cascade");
    await waitUntil("it runs", async () => (await room.jobs()).length > 0);
  });

  test("a row ahead of the clock is told of, once", async () => {
    await room.moveBack("tick", -86_400);
    // The other one has it look at the rows each second.
    await room.create({ tick, other: tick }).start();
    expect(await room.spy.next("schedule.errored")).toMatchObject({
      schedule: "tick",
      error: { message: expect.stringContaining("ahead of the database's clock") },
    });
    await waitUntil("it has looked again", async () => (await room.jobs()).length >= 2);
    expect(room.spy.all("schedule.errored")).toHaveLength(1);
  });

  test("a shorter lock_timeout of the app's own stays", async () => {
    await room.moveBack("held", 400 * 86_400);
    const name = room.database.name;
    await room.database.pool.query(`alter database ${name} set lock_timeout = '40ms'`);
    const year = ({ dueAt }: { readonly dueAt: Date }) => ({ day: dueAt.toISOString() });
    const client = await room.database.pool.connect();
    await client.query("begin");
    const { rows } = await client.query<{ year: string }>(
      `select to_char(date_trunc('year', now() at time zone 'utc'), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as year`,
    );
    // The turn takes its row, and its enqueue waits for this one, which has the same key.
    await client.query(
      `insert into queue_jobs (queue, name, payload, idempotency_key, available_at) values ('default', 'keyed', '{}', $1, now())`,
      [rows[0]?.year],
    );
    const beganMs = performance.now();
    const start = room.create({ held: { job: "keyed", cron: "0 0 1 1 *", payload: year } }).start();
    expect(await room.spy.next("schedule.errored")).toMatchObject({ error: { code: "55P03" } });
    expect(performance.now() - beganMs).toBeLessThan(900);
    await client.query("rollback");
    client.release();
    await start;
    await room.database.pool.query(`alter database ${name} reset lock_timeout`);
  });
});
