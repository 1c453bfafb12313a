import { type Bench, type Benchmark, figure, interleave, type Result } from "./benchmark.js";
import { runOnce, startChild } from "./child.js";
import type { Entry } from "./contender.js";
import type { EnqueueFigures, Way } from "./enqueue-process.js";
import { ENTRIES } from "./entries.js";
import { between } from "./server.js";

const WAYS: readonly (readonly [Way, string])[] = [
  ["nothing", "no job"],
  ["drizzle", "Drizzle's own insert().values().returning()"],
  ["enqueue", "enqueue"],
  ["enqueueKeyed", "enqueue with a key"],
];

async function figuresOf(bench: Bench, clients: number): Promise<EnqueueFigures> {
  await bench.server.drop("enqueue");
  await bench.server.create("enqueue");
  const url = bench.server.urlOf("enqueue");
  return runOnce<EnqueueFigures>("enqueue-process.js", [url, String(clients), "3000"]);
}

/** What an enqueue adds to the app's transaction. */
export const enqueueInTransaction: Benchmark = {
  name: "enqueue",
  title: "One enqueue inside a transaction",
  async run(bench): Promise<Result> {
    const single: EnqueueFigures[] = [];
    const many: EnqueueFigures[] = [];
    await interleave([1, 24], bench.rounds, async (clients, round) => {
      const figures = await figuresOf(bench, clients);
      (clients === 1 ? single : many).push(figures);
      const { enqueue, enqueueKeyed, drizzle } = figures.inTransactionUs;
      const ratios = `${(enqueue / drizzle).toFixed(2)}, with a key ${(enqueueKeyed / drizzle).toFixed(2)}`;
      bench.progress(`round ${round + 1}, ${clients} clients: against Drizzle's insert ${ratios}`);
    });
    const rows = WAYS.map(([way, label]) => ({
      label,
      cells: [
        way === "nothing" ? "" : figure(single.map(({ inTransactionUs: us }) => us[way])),
        way === "nothing"
          ? ""
          : figure(single.map(({ inTransactionUs: us }) => us[way] / us.drizzle)),
        figure(single.map(({ transactionsPerSecond: rate }) => rate[way])),
        figure(many.map(({ transactionsPerSecond: rate }) => rate[way])),
      ],
    }));
    return {
      columns: [
        "µs, median, one client",
        "against Drizzle's insert",
        "transactions/s, 1 client",
        "transactions/s, 24 clients",
      ],
      rows,
      notes: [
        "µs: by turns inside the same open transactions. transactions/s: each inserts an order too, and commits.",
        "No worker runs, so nobody is notified; see `notify` for that.",
      ],
    };
  },
};

const PEERS = ENTRIES.filter(
  ({ name }) => !/ceiling|best-tuned|batch|optional SQL|done: 0/.test(name),
);

/** Enqueueing by each library's own call, alone and in bulk. */
export const enqueueAlone: Benchmark = {
  name: "enqueue-alone",
  title: "Enqueue by itself, and in bulk",
  async run(bench): Promise<Result> {
    const rows: { label: string; runs: Measured[] }[] = PEERS.map(({ name }) => ({
      label: name.replace(/,.*/, ""),
      runs: [],
    }));
    await interleave([...PEERS.keys()], bench.rounds, async (index, round) => {
      const entry = PEERS[index];
      if (entry === undefined) return;
      const measured = await measureAlone(bench, entry);
      rows[index]?.runs.push(measured);
      bench.progress(
        `round ${round + 1}  ${entry.name}: bulk ${Math.round(measured.bulk).toLocaleString("en-US")} jobs/s`,
      );
    });
    const keys = ["one", "many", "bulk", "bulkCpuUs", "bulkWal"] as const;
    return {
      columns: [
        "1 caller, jobs/s",
        "24 callers, jobs/s",
        "bulk, jobs/s",
        "bulk, server CPU µs/job",
        "bulk, WAL bytes/job",
      ],
      rows: rows.map(({ label, runs }) => ({
        label,
        cells: keys.map((key) => figure(runs.map((run) => run[key]))),
      })),
      notes: ["Each call commits by itself. In bulk: batches of 10,000 (BullMQ: 1,000)."],
    };
  },
};

interface Measured {
  readonly one: number;
  readonly many: number;
  readonly bulk: number;
  readonly bulkCpuUs: number;
  readonly bulkWal: number;
}

async function measureAlone({ server, jobs }: Bench, entry: Entry): Promise<Measured> {
  await server.drop("alone");
  await server.create("alone");
  const url = server.urlOf("alone");
  const child = await startChild(entry, { url, concurrency: 24, settings: entry.settings });
  try {
    await child.call("install");
    await child.call("enqueueFor", { clients: 1, forMs: 500 });
    const one = await child.call("enqueueFor", { clients: 1, forMs: 2_000 });
    const many = await child.call("enqueueFor", { clients: 24, forMs: 2_000 });
    const before = await server.cost();
    const bulk = await child.call("seedTimed", jobs);
    const cost = between(before, await server.cost());
    return {
      one: (one.count / one.elapsedMs) * 1_000,
      many: (many.count / many.elapsedMs) * 1_000,
      bulk: (bulk.count / bulk.elapsedMs) * 1_000,
      bulkCpuUs: (cost.cpuMs * 1_000) / jobs,
      bulkWal: cost.walBytes / jobs,
    };
  } finally {
    await child.kill();
    await server.drop("alone");
  }
}
