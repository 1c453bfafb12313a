import type { Entry } from "./contender.js";
import type { BenchServer } from "./server.js";

/** One kind of measurement, run by `npm run bench`. */
export interface Benchmark {
  /** What `--only` takes. */
  readonly name: string;
  readonly title: string;
  run(bench: Bench): Promise<Result>;
}

/** What a benchmark works with. */
export interface Bench {
  readonly server: BenchServer;
  /** Jobs of a drain; what else is counted scales with it. */
  readonly jobs: number;
  readonly rounds: number;
  readonly concurrency: number;
  /** Tells a person what goes on. */
  progress(text: string): void;
  /** The database with `jobs` jobs in it that drains of this entry start from copies of. */
  seedOf(entry: Entry, jobs: number): Promise<string>;
}

/** What came out. */
export interface Result {
  readonly columns: readonly string[];
  readonly rows: readonly { readonly label: string; readonly cells: readonly Cell[] }[];
  /** What a reader must know to read the table. */
  readonly notes: readonly string[];
}

/** A measured figure over the rounds, or a word. */
export type Cell = string | Figure;

export interface Figure {
  readonly median: number;
  readonly lowest: number;
  readonly highest: number;
  readonly runs: readonly number[];
}

/** Sums up the rounds of one figure. */
export function figure(runs: readonly number[]): Figure {
  const sorted = runs.toSorted((a, b) => a - b);
  return {
    median: percentile(sorted, 0.5),
    lowest: sorted[0] ?? Number.NaN,
    highest: sorted.at(-1) ?? Number.NaN,
    runs,
  };
}

/** The value below which a share of ascending values lies; between two of them, their mean. */
export function percentile(sorted: readonly number[], share: number): number {
  const place = (sorted.length - 1) * share;
  const below = sorted[Math.floor(place)] ?? Number.NaN;
  const above = sorted[Math.ceil(place)] ?? Number.NaN;
  return (below + above) / 2;
}

/** Runs every item once per round, each round in another order, so that none is always first. */
export async function interleave<T>(
  items: readonly T[],
  rounds: number,
  run: (item: T, round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    const turn = Math.floor((round * items.length) / rounds);
    for (const item of [...items.slice(turn), ...items.slice(0, turn)]) await run(item, round);
  }
}
