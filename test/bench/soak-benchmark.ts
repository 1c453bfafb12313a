import type pg from "pg";
import type { Produced } from "./bench-process.js";
import { type Bench, type Benchmark, type Cell, figure, type Result } from "./benchmark.js";
import type { Entry } from "./contender.js";
import { delays, type Live, sleep, untilHandled, withLive } from "./live.js";
import { between } from "./server.js";

const PER_SECOND = 800;
/** The stretches that are shown one by one: does it get worse? */
const PARTS = 5;

/** A steady stream while analytic transactions overlap, so that at no time all that is dead can be cleaned. */
function soakBenchmark(name: string, title: string, pattern: RegExp): Benchmark {
  return {
    name,
    title,
    async run(bench): Promise<Result> {
      const rows: Result["rows"][number][] = [];
      for (const entry of bench.entries(pattern))
        rows.push(...(await withLive(bench, entry, 0, (live) => soak(bench, entry, live))));
      return {
        columns: [
          "p50, ms",
          "p99, ms",
          "longest, ms",
          "server CPU, µs/job",
          "worker CPU, µs/job",
          "not started",
        ],
        rows,
        notes: [
          `${PER_SECOND} jobs a second for ${bench.seconds} s, each enqueued by itself; from the call to enqueue to the start. Measured once.`,
          `Repeatable-read transactions of ${bench.seconds * 0.4} s each, a new one each ${bench.seconds * 0.2} s, each with a query that aggregates 1,000,000 numbers every 5 s.`,
          "Server CPU: of enqueue, claim and settlement, and of the analytic queries.",
        ],
      };
    },
  };
}

/** Ours, as part of the report. */
export const soakOurs = soakBenchmark(
  "soak",
  "800 jobs a second under overlapping analytic transactions",
  /^drizzle-queue, done: 0$/,
);

/** The others beside it, on request: one after the other, as long each. */
export const soakPeers = soakBenchmark("soak-peers", "The same, of the others", /tuned|batch/);

async function soak(bench: Bench, entry: Entry, { worker, producer, database }: Live) {
  await sleep(2_500);
  const partMs = (bench.seconds * 1_000) / PARTS;
  const count = PER_SECOND * bench.seconds;
  const producing = producer.call("produce", { count, perSecond: PER_SECOND });
  const open: Promise<void>[] = [];
  const costs: { readonly server: number; readonly node: number; readonly handled: number }[] = [];
  for (let part = 0; part < PARTS; part += 1) {
    const forMs = Math.min(2, PARTS - part) * partMs;
    open.push(analyse(await bench.server.connect(database), forMs));
    const before = await reading();
    await sleep(partMs);
    const after = await reading();
    costs.push({
      server: between(before.cost, after.cost).cpuMs,
      node: after.node - before.node,
      handled: after.handled - before.handled,
    });
    bench.progress(`${entry.name}: part ${part + 1}/${PARTS}, ${after.handled} jobs`);
  }
  const produced = await producing;
  await untilHandled(worker, count, 10_000);
  await Promise.all(open);
  return rowsOf(entry, produced, await worker.call("startedAt"), costs);

  async function reading() {
    const [cost, usage, handled] = await Promise.all([
      bench.server.cost(),
      worker.call("usage"),
      worker.call("handled"),
    ]);
    return { cost, node: usage.cpuMs, handled };
  }
}

async function analyse(client: pg.Client, forMs: number): Promise<void> {
  const untilMs = performance.now() + forMs;
  await client.query("begin isolation level repeatable read");
  while (performance.now() < untilMs) {
    await client.query("select sum(number) from generate_series(1, 1000000) as number");
    await sleep(Math.min(5_000, Math.max(0, untilMs - performance.now())));
  }
  await client.query("commit");
  await client.end();
}

function rowsOf(
  entry: Entry,
  produced: readonly Produced[],
  startedAt: readonly (number | null)[],
  costs: readonly { readonly server: number; readonly node: number; readonly handled: number }[],
): Result["rows"] {
  const size = Math.ceil(produced.length / PARTS);
  return costs.map(({ server, node, handled }, part) => {
    const [from, to] = [part * size, (part + 1) * size];
    const of = delays(produced.slice(from, to), startedAt.slice(from, to), "calledAt");
    const figures = [
      of.p50,
      of.p99,
      of.highest,
      (server * 1_000) / handled,
      (node * 1_000) / handled,
    ];
    const cells: Cell[] = [...figures.map((value) => figure([value])), String(of.missing)];
    return { label: `${entry.name}, part ${part + 1} of ${PARTS}`, cells };
  });
}
