import type { Entry } from "./contender.js";
import type { BenchServer } from "./server.js";
import type { Store } from "./store.js";

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
  /** Entries that were asked for and can run here: without a Redis server, none that needs one. */
  entries(pattern?: RegExp): readonly Entry[];
  /** Where an entry keeps its jobs. */
  storeOf(entry: Entry): Store;
  /** Jobs of a drain; what else is counted scales with it. */
  readonly jobs: number;
  readonly rounds: number;
  readonly concurrency: number;
  /** How long a measurement of endurance goes on. */
  readonly seconds: number;
  /** Tells a person what goes on. */
  progress(text: string): void;
  /** Makes a database with `jobs` jobs of this entry in it: where it can be, a copy of one made before. */
  seed(entry: Entry, database: string, jobs: number): Promise<void>;
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

/** The rounds of one figure against those of another, round by round. */
export function ratio(above: Cell | undefined, below: Cell | undefined): Figure | undefined {
  if (typeof above !== "object" || typeof below !== "object") return undefined;
  const rounds = Math.min(above.runs.length, below.runs.length);
  if (rounds === 0) return undefined;
  return figure(
    Array.from(
      { length: rounds },
      (_, round) => (above.runs[round] ?? 0) / (below.runs[round] ?? 0),
    ),
  );
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
