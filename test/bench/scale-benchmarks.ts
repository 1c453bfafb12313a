import { type Bench, type Benchmark, figure, interleave, type Result } from "./benchmark.js";
import { type Child, startChild } from "./child.js";
import type { Entry } from "./contender.js";
import { type DrainRun, drainOnce } from "./drain.js";
import { ENTRIES } from "./entries.js";
import { between } from "./server.js";

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const named = (pattern: RegExp): readonly Entry[] =>
  ENTRIES.filter(({ name }) => pattern.test(name));

/** Drains a copy of the seed with several processes; gives jobs a second. */
async function drainTogether(bench: Bench, entry: Entry, jobs: number, count: number) {
  const { server, concurrency } = bench;
  const seed = await bench.seedOf(entry, jobs);
  await server.drop("together");
  await server.create("together", seed);
  const options = { url: server.urlOf("together"), concurrency, settings: entry.settings };
  const children: Child[] = [];
  for (let index = 0; index < count; index += 1) children.push(await startChild(entry, options));
  const handled = async (): Promise<number> =>
    (await Promise.all(children.map((child) => child.call("handled")))).reduce((a, b) => a + b, 0);
  try {
    const beganMs = performance.now();
    await Promise.all(children.map((child) => child.call("work", { handlerMs: 5 })));
    while ((await handled()) < jobs && performance.now() - beganMs < 30_000) await sleep(10);
    return ((await handled()) / (performance.now() - beganMs)) * 1_000;
  } finally {
    for (const child of children) await child.kill();
    await server.drop("together");
  }
}

/** Whether more processes do more, as long as handlers are what takes the time. */
export const processes: Benchmark = {
  name: "processes",
  title: "1, 2 and 4 worker processes, handlers of 5 ms",
  async run(bench): Promise<Result> {
    const jobs = Math.min(bench.jobs, 30_000);
    const entries = named(/^drizzle-queue, (done: 0|rows kept \(default\))$|best-tuned|batch/);
    const counts = [1, 2, 4];
    const lines = entries.flatMap((entry) => counts.map((count) => ({ entry, count })));
    const rates = new Map(lines.map((line) => [line, [] as number[]]));
    await interleave(lines, bench.rounds, async (line, round) => {
      const rate = await drainTogether(bench, line.entry, jobs, line.count);
      rates.get(line)?.push(rate);
      bench.progress(
        `round ${round + 1}  ${line.entry.name} × ${line.count}: ${Math.round(rate)} jobs/s`,
      );
    });
    const rows = entries.map((entry) => {
      const of = lines.filter((line) => line.entry === entry).map((line) => rates.get(line) ?? []);
      const single = of[0] ?? [];
      const gain = (several: readonly number[]) =>
        figure(several.map((rate, round) => rate / (single[round] ?? Number.NaN)));
      return {
        label: entry.name,
        cells: [...of.map(figure), ...of.slice(1).map(gain)],
      };
    });
    return {
      columns: ["1, jobs/s", "2, jobs/s", "4, jobs/s", "2 against 1", "4 against 1"],
      rows,
      notes: [
        `${jobs} jobs, concurrency ${bench.concurrency} in each process; from the start of the workers on. All share the machine's cores with the server.`,
      ],
    };
  },
};

interface History {
  readonly label: string;
  readonly fill: string | undefined;
}

/** What else may lie in the table while jobs are claimed; 5,000,000 finished rows at the default 100,000 jobs. */
function historiesOf(jobs: number): readonly History[] {
  const count = (times: number): string => (jobs * times).toLocaleString("en-US");
  return [
    { label: "empty table", fill: undefined },
    { label: `${count(10)} finished`, fill: finished(jobs * 10) },
    {
      label: `${count(50)} finished, ${count(3)} future, ${count(0.1)} running`,
      fill: `${finished(jobs * 50)};
      insert into queue_jobs (queue, name, payload, available_at)
        select 'default', 'bench', '{"n": 0, "note": ""}', now() + interval '1 day' + number * interval '1 second'
        from generate_series(1, ${jobs * 3}) as number;
      insert into queue_jobs (queue, name, payload, available_at, status, attempts, lease_version, lease_until, locked_by, started_at)
        select 'default', 'bench', '{"n": 0, "note": ""}', now() - interval '1 hour' + number * interval '1 millisecond',
          'running', 1, 1, now() + interval '1 day', 'somebody', now()
        from generate_series(1, ${jobs / 10}) as number`,
    },
    {
      label: `${count(1)} of unknown names`,
      fill: `insert into queue_jobs (queue, name, payload, available_at)
      select 'default', 'unknown', '{}', now() - interval '1 hour' + number * interval '1 millisecond'
      from generate_series(1, ${jobs}) as number`,
    },
  ];
}

function finished(count: number): string {
  return `insert into queue_jobs (queue, name, payload, status, outcome, attempts, lease_version, available_at, started_at, finished_at)
    select 'default', 'bench', '{"n": 0, "note": "a small payload"}', 'done', 'done', 1, 1, at, at, at
    from generate_series(1, ${count}) as number
    cross join lateral (select now() - interval '2 days' + number * interval '10 milliseconds') as time(at)`;
}

/** Whether a claim costs more the more there is in the table. */
export const claimCost: Benchmark = {
  name: "claim-cost",
  title: "Claim cost by what else is in the table",
  async run(bench): Promise<Result> {
    const entry = named(/^drizzle-queue, done: 0$/)[0];
    if (entry === undefined) throw new Error("There is no entry to measure.");
    const { server } = bench;
    const jobs = Math.min(bench.jobs, 20_000);
    const histories = historiesOf(bench.jobs);
    const costs = histories.map(() => [] as number[]);
    for (const [index, { label, fill }] of histories.entries()) {
      await prepare(bench, entry, `history_${index}`, fill);
      bench.progress(`filled: ${label}`);
    }
    await interleave([...histories.keys()], bench.rounds, async (index, round) => {
      const us = await drainInPlace(bench, entry, `history_${index}`, jobs);
      costs[index]?.push(us);
      bench.progress(`round ${round + 1}  ${histories[index]?.label}: ${us.toFixed(1)} µs`);
    });
    for (const index of histories.keys()) await server.drop(`history_${index}`);
    const base = figure(costs[0] ?? []).median;
    return {
      columns: ["server CPU, µs/job", "against the empty table"],
      rows: histories.map(({ label }, index) => ({
        label,
        cells: [
          figure(costs[index] ?? []),
          figure((costs[index] ?? []).map((cost) => cost / base)),
        ],
      })),
      notes: [
        `${jobs} jobs enqueued and drained with \`done: 0\` in each round; the drain is measured.`,
      ],
    };
  },
};

async function prepare(
  { server }: Bench,
  entry: Entry,
  database: string,
  fill: string | undefined,
): Promise<void> {
  await server.drop(database);
  await server.create(database);
  const options = { url: server.urlOf(database), concurrency: 2, settings: entry.settings };
  const child = await startChild(entry, options);
  await child.call("install");
  await child.kill();
  if (fill !== undefined) await server.query(database, fill);
  await server.query(database, "vacuum analyze");
}

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

/** How many jobs a second end in a transaction of the app's own. */
export const commits: Benchmark = {
  name: "commit",
  title: "Jobs completed by commit, with one row written in each",
  async run(bench): Promise<Result> {
    const jobs = Math.min(bench.jobs, 20_000);
    const [plain] = named(/^drizzle-queue, rows kept \(default\)$/);
    if (plain === undefined) throw new Error("There is no entry to measure.");
    const entry = { ...plain, family: "ours_commit", settings: { commit: true } };
    const seed = await bench.seedOf(entry, jobs);
    const options = { jobs, concurrency: bench.concurrency, handlerMs: 0, capMs: 30_000 };
    const runs: DrainRun[] = [];
    await interleave([entry], bench.rounds, async (_, round) => {
      const run = await drainOnce(bench.server, entry, seed, options);
      runs.push(run);
      bench.progress(`round ${round + 1}: ${Math.round(run.jobsPerSecond)} transactions/s`);
    });
    const cells = [
      figure(runs.map((run) => run.jobsPerSecond)),
      figure(runs.map((run) => run.serverCpuUs)),
      figure(runs.map((run) => run.nodeCpuUs)),
      figure(runs.map((run) => run.walBytes)),
    ];
    return {
      columns: ["transactions/s", "server CPU, µs", "node CPU, µs", "WAL, bytes"],
      rows: [{ label: "drizzle-queue, commit", cells }],
      notes: [
        `${jobs} jobs, concurrency ${bench.concurrency}: each effect, its job and its key in one transaction.`,
      ],
    };
  },
};

/** What being told of each new job costs those who enqueue. */
export const notifyCost: Benchmark = {
  name: "notify",
  title: "Enqueue from 24 callers, by what the workers do",
  async run(bench): Promise<Result> {
    const [entry] = named(/^drizzle-queue, rows kept \(default\)$/);
    if (entry === undefined) throw new Error("There is no entry to measure.");
    const cases = [
      "no worker: nobody is notified",
      "every worker busy",
      "a worker that keeps up",
    ] as const;
    const rates = new Map(cases.map((label) => [label, [] as number[]]));
    await interleave(cases, bench.rounds, async (label, round) => {
      const rate = await enqueueBeside(bench, entry, cases.indexOf(label));
      rates.get(label)?.push(rate);
      bench.progress(`round ${round + 1}  ${label}: ${Math.round(rate)} commits/s`);
    });
    const base = rates.get(cases[0]) ?? [];
    return {
      columns: ["commits/s", "against no worker"],
      rows: [...rates].map(([label, of]) => ({
        label,
        cells: [figure(of), figure(of.map((rate, round) => rate / (base[round] ?? Number.NaN)))],
      })),
      notes: ["The worker of the last line shares the machine with those who enqueue."],
    };
  },
};

/** Commits a second of 24 callers, beside no worker, a busy one or one that keeps up. */
async function enqueueBeside(bench: Bench, entry: Entry, workers: number): Promise<number> {
  const { server, concurrency } = bench;
  await prepare(bench, entry, "beside", undefined);
  const options = { url: server.urlOf("beside"), concurrency: 24, settings: entry.settings };
  const producer = await startChild(entry, options);
  const worker = workers === 0 ? undefined : await startChild(entry, { ...options, concurrency });
  try {
    const isBusy = workers === 1;
    if (isBusy) await producer.call("seed", concurrency);
    await worker?.call("work", { handlerMs: isBusy ? 600_000 : 0 });
    while (isBusy && ((await worker?.call("handled")) ?? 0) < concurrency) await sleep(20);
    await producer.call("enqueueFor", { clients: 24, forMs: 2_000 });
    const { count, elapsedMs } = await producer.call("enqueueFor", { clients: 24, forMs: 4_000 });
    return (count / elapsedMs) * 1_000;
  } finally {
    await worker?.kill();
    await producer.kill();
    await server.drop("beside");
  }
}

/** Whether a worker's memory grows with the jobs that it has run. */
export const memory: Benchmark = {
  name: "memory",
  title: "A worker's memory over ten times as many jobs",
  async run(bench): Promise<Result> {
    const total = bench.jobs * 10;
    const entry = named(/^drizzle-queue, done: 0$/)[0];
    if (entry === undefined) throw new Error("There is no entry to measure.");
    const { server, concurrency, jobs } = bench;
    await prepare(bench, entry, "memory", undefined);
    const options = { url: server.urlOf("memory"), concurrency, settings: entry.settings };
    const feeder = await startChild(entry, options);
    const worker = await startChild(entry, options, ["--expose-gc"]);
    const rows: Result["rows"][number][] = [];
    try {
      await worker.call("work", { handlerMs: 0 });
      for (let done = 0; done < total; ) {
        await feeder.call("seed", jobs);
        done += jobs;
        while ((await worker.call("handled")) < done) await sleep(20);
        const { heapBytes, rssBytes } = await worker.call("usage");
        const cells = [figure([heapBytes / 2 ** 20]), figure([rssBytes / 2 ** 20])];
        rows.push({ label: `after ${done.toLocaleString("en-US")} jobs`, cells });
        bench.progress(`after ${done} jobs: heap ${(heapBytes / 2 ** 20).toFixed(1)} MiB`);
      }
      const size = await server.query<{ table: string; all: string }>(
        "memory",
        `select pg_size_pretty(pg_relation_size('queue_jobs')) as table,
          pg_size_pretty(pg_total_relation_size('queue_jobs')) as all`,
      );
      return {
        columns: ["heap after collection, MiB", "resident, MiB"],
        rows,
        notes: [
          `The table at the end: ${size[0]?.table}, with its indexes ${size[0]?.all}; \`done: 0\`.`,
          "The count of starts that the benchmark keeps is in the heap too: 8 bytes for each number, reused by each batch.",
        ],
      };
    } finally {
      await feeder.kill();
      await worker.kill();
      await server.drop("memory");
    }
  },
};
