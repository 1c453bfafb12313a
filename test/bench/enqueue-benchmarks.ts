import { type Bench, type Benchmark, figure, interleave, type Result } from "./benchmark.js";
import { type Child, runOnce, startChild } from "./child.js";
import type { Entry } from "./contender.js";
import type { EnqueueFigures, Way } from "./enqueue-process.js";
import { between } from "./server.js";
import type { Store } from "./store.js";

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

/** Each library once: what a worker is set to makes no difference. */
const EACH = /kept \(default\)$|, default$|^BullMQ/;

const BARE = "bare insert … select of the same rows";

/** Enqueueing by each library's own call, alone and in bulk. */
export const enqueueAlone: Benchmark = {
  name: "enqueue-alone",
  title: "Enqueue by itself, and in bulk",
  async run(bench): Promise<Result> {
    const contestants = [
      ...bench.entries(EACH).map((entry) => ({
        label: entry.name.replace(/,.*/, ""),
        measure: () => measureAlone(bench, entry),
        runs: [] as Measured[],
      })),
      { label: BARE, measure: () => measureBare(bench), runs: [] as Measured[] },
    ];
    await interleave(contestants, bench.rounds, async ({ label, measure, runs }, round) => {
      const measured = await measure();
      runs.push(measured);
      bench.progress(
        `round ${round + 1}  ${label}: bulk ${Math.round(measured.bulk).toLocaleString("en-US")} jobs/s`,
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
      rows: contestants.map(({ label, runs }) => ({
        label,
        cells: keys.map((key) => {
          const values = runs.flatMap((run) => run[key] ?? []);
          return values.length === 0 ? "" : figure(values);
        }),
      })),
      notes: [
        "Each call commits by itself. In bulk: batches of 10,000 (BullMQ: 1,000).",
        "The bare insert writes the rows of drizzle-queue's table by a statement of its own, and checks and answers nothing.",
      ],
    };
  },
};

interface Measured {
  readonly one?: number;
  readonly many?: number;
  readonly bulk: number;
  readonly bulkCpuUs: number;
  readonly bulkWal: number;
}

async function measureAlone(bench: Bench, entry: Entry): Promise<Measured> {
  return withTables(bench, entry, async (child) => {
    await child.call("enqueueFor", { clients: 1, forMs: 500 });
    const one = await child.call("enqueueFor", { clients: 1, forMs: 2_000 });
    const many = await child.call("enqueueFor", { clients: 24, forMs: 2_000 });
    return {
      one: (one.count / one.elapsedMs) * 1_000,
      many: (many.count / many.elapsedMs) * 1_000,
      ...(await bulk(
        bench,
        bench.storeOf(entry),
        async () => (await child.call("seedTimed", bench.jobs)).elapsedMs,
      )),
    };
  });
}

/** What each batch costs at least: the same rows in the same table, by one statement and nothing else. */
async function measureBare(bench: Bench): Promise<Measured> {
  const [ours] = bench.entries(EACH);
  if (ours === undefined) throw new Error("There is no entry of ours.");
  return withTables(bench, ours, async () => {
    const client = await bench.server.connect("alone");
    try {
      return await bulk(bench, bench.server, async () => {
        const beganMs = performance.now();
        for (let first = 0; first < bench.jobs; first += BATCH) {
          const size = Math.min(BATCH, bench.jobs - first);
          const payloads = Array.from({ length: size }, (_, index) => ({
            n: first + index,
            note: "a small payload",
          }));
          await client.query(BARE_INSERT, [JSON.stringify(payloads)]);
        }
        return performance.now() - beganMs;
      });
    } finally {
      await client.end();
    }
  });
}

/** As many rows as go in one statement of ours. */
const BATCH = 10_000;

const BARE_INSERT = `
  insert into queue_jobs (queue, name, payload, priority, max_attempts, available_at, created_at)
  select 'default', 'bench', payload, 5, 10, statement_timestamp(), statement_timestamp()
  from jsonb_array_elements($1::jsonb) as payload`;

async function bulk(
  { jobs }: Bench,
  store: Store,
  insert: () => Promise<number>,
): Promise<Pick<Measured, "bulk" | "bulkCpuUs" | "bulkWal">> {
  const before = await store.cost();
  const elapsedMs = await insert();
  const cost = between(before, await store.cost());
  return {
    bulk: (jobs / elapsedMs) * 1_000,
    bulkCpuUs: (cost.cpuMs * 1_000) / jobs,
    bulkWal: cost.walBytes / jobs,
  };
}

/** Runs something with an entry in a process of its own, on a database with its tables and nothing in them. */
async function withTables(
  bench: Bench,
  entry: Entry,
  run: (child: Child) => Promise<Measured>,
): Promise<Measured> {
  const store = bench.storeOf(entry);
  await store.drop("alone");
  await store.create("alone");
  const url = store.urlOf("alone");
  const child = await startChild(entry, { url, concurrency: 24, settings: entry.settings });
  try {
    await child.call("install");
    return await run(child);
  } finally {
    await child.kill();
    await store.drop("alone");
  }
}
