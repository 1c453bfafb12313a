import { type Bench, type Benchmark, figure, interleave, type Result, ratio } from "./benchmark.js";
import { type Child, startChild } from "./child.js";
import type { Entry } from "./contender.js";
import { sleep } from "./live.js";

/** Nobody is given longer for one drain. */
const CAP_MS = 30_000;

/** Whether more processes do more, as long as handlers are what takes the time. */
export const processes: Benchmark = {
  name: "processes",
  title: "1, 2 and 4 worker processes, handlers of 5 ms",
  async run(bench): Promise<Result> {
    const jobs = Math.min(bench.jobs, 30_000);
    const entries = bench.entries(/^drizzle-queue, done: 0$|tuned|batch/);
    const counts = [1, 2, 4];
    const lines = entries.flatMap((entry) => counts.map((count) => ({ entry, count })));
    const rates = new Map(lines.map((line) => [line, [] as number[]]));
    await interleave(lines, bench.rounds, async (line, round) => {
      const rate = await drainTogether(bench, line.entry, jobs, line.count);
      rates.get(line)?.push(rate);
      bench.progress(
        `round ${round + 1}/${bench.rounds}  ${line.entry.name} × ${line.count}: ${Math.round(rate)} jobs/s`,
      );
    });
    const rows = entries.map((entry) => {
      const of = lines
        .filter((line) => line.entry === entry)
        .map((line) => figure(rates.get(line) ?? []));
      const gains = of.slice(1).map((several) => ratio(several, of[0]) ?? "");
      return { label: entry.name, cells: [...of, ...gains] };
    });
    return {
      columns: ["1, jobs/s", "2, jobs/s", "4, jobs/s", "2 against 1", "4 against 1"],
      rows,
      notes: [
        `${jobs} jobs, concurrency ${bench.concurrency} in each process; from a tenth of the jobs on to the last one's start. All share the machine's cores with the server.`,
      ],
    };
  },
};

/** Drains with several processes; gives jobs a second. */
async function drainTogether(bench: Bench, entry: Entry, jobs: number, count: number) {
  const database = "together";
  const { server, concurrency } = bench;
  await bench.seed(entry, database, jobs);
  const options = { url: server.urlOf(database), concurrency, settings: entry.settings };
  const children: Child[] = [];
  for (let index = 0; index < count; index += 1) children.push(await startChild(entry, options));
  const handled = async (): Promise<number> =>
    (await Promise.all(children.map((child) => child.call("handled")))).reduce((a, b) => a + b, 0);
  const untilMs = performance.now() + CAP_MS;
  const reach = async (least: number): Promise<{ readonly count: number; readonly ms: number }> => {
    let reached = await handled();
    while (reached < least && performance.now() < untilMs) {
      await sleep(5);
      reached = await handled();
    }
    return { count: reached, ms: performance.now() };
  };
  try {
    await Promise.all(children.map((child) => child.call("work", { handlerMs: 5 })));
    const from = await reach(jobs / 10);
    const to = await reach(jobs);
    return ((to.count - from.count) / (to.ms - from.ms)) * 1_000;
  } finally {
    for (const child of children) await child.kill();
    await server.drop(database);
  }
}
