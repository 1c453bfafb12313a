import { type Bench, type Benchmark, figure, interleave, type Result } from "./benchmark.js";
import { startChild } from "./child.js";
import type { Entry } from "./contender.js";
import { sleep } from "./live.js";
import { prepare } from "./prepare.js";
import { between } from "./server.js";

/** What else lies in the table, or how else it is laid out, while jobs are claimed. */
interface History {
  readonly label: string;
  readonly fill?: string;
  readonly queues?: number;
}

/** 5,000,000 finished rows at 100,000 jobs. */
function historiesOf(jobs: number): readonly History[] {
  const count = (times: number): string => (jobs * times).toLocaleString("en-US");
  return [
    { label: "empty table" },
    { label: "empty table, 50 queues", queues: 50 },
    { label: `${count(10)} finished`, fill: finished(jobs * 10) },
    {
      label: `${count(50)} finished, ${count(3)} future, ${count(0.1)} running`,
      fill: `${finished(jobs * 50)}; ${future(jobs * 3)}; ${running(jobs / 10)}`,
    },
    { label: `${count(1)} of unknown names`, fill: unknown(jobs) },
  ];
}

const finished = (count: number): string => `
  insert into queue_jobs (queue, name, payload, status, outcome, attempts, lease_version, available_at, started_at, finished_at)
  select 'default', 'bench', '{"n": 0, "note": "a small payload"}', 'done', 'done', 1, 1, at, at, at
  from generate_series(1, ${count}) as number
  cross join lateral (select now() - interval '2 days' + number * interval '10 milliseconds') as time(at)`;

const future = (count: number): string => `
  insert into queue_jobs (queue, name, payload, available_at)
  select 'default', 'bench', '{"n": 0, "note": ""}', now() + interval '1 day' + number * interval '1 second'
  from generate_series(1, ${count}) as number`;

const running = (count: number): string => `
  insert into queue_jobs (queue, name, payload, available_at, status, attempts, lease_version, lease_until, locked_by, started_at)
  select 'default', 'bench', '{"n": 0, "note": ""}', now() - interval '1 hour' + number * interval '1 millisecond',
    'running', 1, 1, now() + interval '1 day', 'somebody', now()
  from generate_series(1, ${count}) as number`;

const unknown = (count: number): string => `
  insert into queue_jobs (queue, name, payload, available_at)
  select 'default', 'unknown', '{}', now() - interval '1 hour' + number * interval '1 millisecond'
  from generate_series(1, ${count}) as number`;

/** Whether a claim costs more the more there is in the table. */
export const claimCost: Benchmark = {
  name: "claim-cost",
  title: "Claim cost by what else is in the table",
  async run(bench): Promise<Result> {
    const [entry] = bench.entries(/^drizzle-queue, done: 0$/);
    if (entry === undefined) throw new Error("There is no entry to measure.");
    const jobs = Math.min(bench.jobs, 20_000);
    const places = historiesOf(bench.jobs).map((history, index) => ({
      ...history,
      database: `history_${index}`,
      entry: { ...entry, settings: { ...entry.settings, queues: history.queues } },
      costs: [] as number[],
    }));
    for (const { label, fill, database } of places) {
      await prepare(bench, entry, database, fill);
      bench.progress(`filled: ${label}`);
    }
    await interleave(places, bench.rounds, async (place, round) => {
      const us = await drainInPlace(bench, place.entry, place.database, jobs);
      place.costs.push(us);
      bench.progress(`round ${round + 1}/${bench.rounds}  ${place.label}: ${us.toFixed(1)} µs`);
    });
    for (const { database } of places) await bench.server.drop(database);
    const base = figure(places[0]?.costs ?? []).median;
    return {
      columns: ["server CPU, µs/job", "against the empty table"],
      rows: places.map(({ label, costs }) => ({
        label,
        cells: [figure(costs), figure(costs.map((cost) => cost / base))],
      })),
      notes: [
        `${jobs} jobs enqueued and then drained with \`done: 0\` in each round; the drain is measured, from the worker's start to its end.`,
      ],
    };
  },
};

/** Enqueues and drains in a database that stays; gives the server's CPU time for a job of the drain. */
async function drainInPlace(
  { server, concurrency }: Bench,
  entry: Entry,
  database: string,
  jobs: number,
): Promise<number> {
  const options = { url: server.urlOf(database), concurrency, settings: entry.settings };
  const child = await startChild(entry, options);
  try {
    await child.call("seed", jobs);
    const before = await server.cost();
    await child.call("work", { handlerMs: 0 });
    while ((await child.call("handled")) < jobs) await sleep(5);
    await child.call("stop");
    return (between(before, await server.cost()).cpuMs * 1_000) / jobs;
  } finally {
    await child.kill();
  }
}
