import { type Bench, type Benchmark, type Cell, figure, type Result } from "./benchmark.js";
import { type Live, sleep, withLive } from "./live.js";
import { between } from "./server.js";

/** How long a worker is left alone first, and then watched. */
const QUIET_MS = 8_000;
const WATCH_MS = 20_000;

/** What a worker costs that has nothing to do. */
export const idle: Benchmark = {
  name: "idle",
  title: "An idle worker, per minute",
  async run(bench): Promise<Result> {
    const rows: Result["rows"][number][] = [];
    const entries = bench
      .entries(/default|^BullMQ/)
      .filter((entry) => entry.database === "postgresql");
    for (const entry of entries) {
      const cells = await withLive(bench, entry, 0, (live) => watchIdle(bench, live));
      rows.push({ label: entry.name, cells });
      bench.progress(`${entry.name}: watched for ${WATCH_MS / 1_000} s`);
    }
    return {
      columns: ["statements", "transactions", "server CPU, ms", "node CPU, ms"],
      rows,
      notes: [
        `Watched once for ${WATCH_MS / 1_000} s after ${QUIET_MS / 1_000} s of quiet, counted by pg_stat_statements; server CPU includes the server's own idling, and has steps of 10 ms.`,
        `The worker's process only, concurrency ${bench.concurrency}.`,
      ],
    };
  },
};

async function watchIdle({ server }: Bench, { worker, database }: Live): Promise<Cell[]> {
  await sleep(QUIET_MS);
  const watcher = await server.connect(database);
  // What the watcher itself asks does not count.
  await watcher.query("set pg_stat_statements.track = 'none'");
  const read = async () => ({
    ...(await watcher.query(COUNTS)).rows[0],
    cost: await server.cost(),
    node: (await worker.call("usage")).cpuMs,
  });
  const before = await read();
  await sleep(WATCH_MS);
  const after = await read();
  await watcher.end();
  const perMinute = (value: number): Cell => figure([(value * 60_000) / WATCH_MS]);
  return [
    perMinute(after.calls - before.calls),
    // The watcher's own reading is one of them.
    perMinute(after.commits - before.commits - 1),
    perMinute(between(before.cost, after.cost).cpuMs),
    perMinute(after.node - before.node),
  ];
}

const COUNTS = `
  select (select coalesce(sum(calls), 0)::float8 from pg_stat_statements as statement
      join pg_database as own on own.oid = statement.dbid where own.datname = current_database()) as calls,
    (select (xact_commit + xact_rollback)::float8 from pg_stat_database where datname = current_database()) as commits`;
