import { type Bench, type Benchmark, figure, interleave, type Result, ratio } from "./benchmark.js";
import { startChild } from "./child.js";
import type { Entry } from "./contender.js";
import { type DrainRun, drainOnce } from "./drain.js";
import { sleep } from "./live.js";
import { prepare } from "./prepare.js";

function defaultEntry(bench: Bench): Entry {
  const [entry] = bench.entries(/^drizzle-queue, rows kept \(default\)$/);
  if (entry === undefined) throw new Error("There is no entry with defaults.");
  return entry;
}

/** How many jobs a second end under the guard of their lease: in batches, or each in a transaction of the app's own. */
export const commits: Benchmark = {
  name: "commit",
  title: "Fenced completions and commits",
  async run(bench): Promise<Result> {
    const jobs = Math.min(bench.jobs, 20_000);
    const plain = defaultEntry(bench);
    const lines = [
      { label: "completed by the worker", entry: plain, runs: [] as DrainRun[] },
      {
        label: "completed by commit, one row written in each",
        entry: { ...plain, family: "ours_commit", settings: { commit: true } },
        runs: [] as DrainRun[],
      },
    ];
    await interleave(lines, bench.rounds, async ({ label, entry, runs }, round) => {
      const run = await drainOnce(bench, entry, { jobs, handlerMs: 0, capMs: 30_000 });
      runs.push(run);
      bench.progress(
        `round ${round + 1}/${bench.rounds}  ${label}: ${Math.round(run.jobsPerSecond)} jobs/s`,
      );
    });
    const keys = ["jobsPerSecond", "serverCpuUs", "nodeCpuUs", "walBytes", "transactions"] as const;
    return {
      columns: [
        "jobs/s",
        "server CPU, µs/job",
        "node CPU, µs/job",
        "WAL, bytes/job",
        "transactions per 1,000 jobs",
      ],
      rows: lines.map(({ label, runs }) => ({
        label,
        cells: keys.map((key) => figure(runs.map((run) => run[key]))),
      })),
      notes: [
        `${jobs} jobs, concurrency ${bench.concurrency}, rows kept. Each completion is guarded by the job's lease version; a commit holds its effect, the completion and the guard in one transaction.`,
      ],
    };
  },
};

const CASES = [
  "no worker: nobody is notified",
  "every worker busy",
  "a worker that keeps up",
] as const;

/** What being told of each new job costs those who enqueue. */
export const notifyCost: Benchmark = {
  name: "notify",
  title: "Enqueue from 24 callers, by what the workers do",
  async run(bench): Promise<Result> {
    const entry = defaultEntry(bench);
    const rates = new Map(CASES.map((label) => [label, [] as number[]]));
    await interleave(CASES, bench.rounds, async (label, round) => {
      const rate = await enqueueBeside(bench, entry, CASES.indexOf(label));
      rates.get(label)?.push(rate);
      bench.progress(`round ${round + 1}/${bench.rounds}  ${label}: ${Math.round(rate)} commits/s`);
    });
    const base = figure(rates.get(CASES[0]) ?? []);
    return {
      columns: ["commits/s", "against no worker"],
      rows: [...rates].map(([label, of]) => ({
        label,
        cells: [figure(of), ratio(figure(of), base) ?? ""],
      })),
      notes: [
        "Each caller enqueues one job by itself, again and again, for 4 s after 1 s of warm-up. The worker of the last line shares the machine with those who enqueue.",
      ],
    };
  },
};

/** Commits a second of 24 callers, beside no worker, a busy one or one that keeps up. */
async function enqueueBeside(bench: Bench, entry: Entry, workers: number): Promise<number> {
  const { server, concurrency } = bench;
  await prepare(bench, entry, "beside");
  const options = { url: server.urlOf("beside"), concurrency: 24, settings: entry.settings };
  const producer = await startChild(entry, options);
  const worker = workers === 0 ? undefined : await startChild(entry, { ...options, concurrency });
  try {
    const isBusy = workers === 1;
    if (isBusy) await producer.call("seed", concurrency);
    await worker?.call("work", { handlerMs: isBusy ? 600_000 : 0 });
    while (isBusy && ((await worker?.call("handled")) ?? 0) < concurrency) await sleep(20);
    await producer.call("enqueueFor", { clients: 24, forMs: 1_000 });
    const { count, elapsedMs } = await producer.call("enqueueFor", { clients: 24, forMs: 4_000 });
    return (count / elapsedMs) * 1_000;
  } finally {
    await worker?.kill();
    await producer.kill();
    await server.drop("beside");
  }
}
