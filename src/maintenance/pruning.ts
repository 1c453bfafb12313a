import type { OldRow } from "../queries/prune-rows.js";

/** Deletes rows of one kind that have outlived their retention. */
export interface Pruning {
  /**
   * Deletes batch after batch until none is left that is old.
   *
   * @throws what `find` and `remove` reject with; a later pass goes on from there.
   */
  pass(): Promise<void>;
}

export interface PruningOptions {
  readonly find: (after: OldRow | null, limit: number) => Promise<readonly OldRow[]>;
  /** Deletes all of these or, when it rejects, none. */
  readonly remove: (ids: readonly number[]) => Promise<number>;
  /** Whether one of the rows may be at fault, such as one that an app's foreign key holds. */
  readonly isRefusal: (error: unknown) => boolean;
  readonly onPruned: (count: number) => void;
  readonly isStopped: () => boolean;
  readonly sleep: (delayMs: number) => Promise<void>;
  readonly nowMs: () => number;
}

/** A foreign key of the app without an index makes each delete read a whole table, so it begins with few. */
const FIRST_BATCH = 20;
const MAX_BATCH = 1_000;
/** A batch that takes longer is followed by a smaller one, in milliseconds: others use the connection too. */
const SLOW_MS = 100;
/** It rests for this many times as long as a batch took. */
const REST = 4;
/** After so many refused rows with none deleted between them, the pass ends: all may be held. */
const MAX_REFUSED = 10;
/** How long rows that were passed over, locked or refused, are left alone, in milliseconds. */
const ROUND_MS = 3_600_000;

/** Creates the pruning of one kind of rows, which keeps how far it has come. */
export function createPruning(options: PruningOptions): Pruning {
  const { nowMs } = options;
  let size = FIRST_BATCH;
  // Rows grow old in their order, so behind this place are all that a pass has not seen.
  let after: OldRow | null = null;
  let roundSinceMs = nowMs();

  /** Where the database refuses some, the others go half by half. */
  const remove = async (rows: readonly OldRow[]): Promise<void> => {
    const parts = rows.length === 0 ? [] : [rows.map(({ id }) => id)];
    let refused = 0;
    for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
      try {
        const count = await options.remove(part);
        if (count === 0) continue;
        refused = 0;
        options.onPruned(count);
      } catch (error) {
        if (!options.isRefusal(error)) throw error;
        if (part.length === 1) refused += 1;
        if (refused >= MAX_REFUSED) throw error;
        const half = Math.floor(part.length / 2);
        if (half > 0) parts.push(part.slice(half), part.slice(0, half));
      }
      if (options.isStopped()) return;
    }
  };

  /** Deletes one batch; tells whether it was the last, and how long it took. */
  const batch = async (): Promise<{ readonly isLast: boolean; readonly tookMs: number }> => {
    const startedMs = nowMs();
    const before = after;
    const limit = size;
    try {
      const rows = await options.find(after, limit);
      after = rows.at(-1) ?? after;
      await remove(rows);
      return { isLast: rows.length < limit, tookMs: nowMs() - startedMs };
    } catch (error) {
      // What is refused is passed over, with the rest of its batch; all else is tried again.
      if (!options.isRefusal(error)) after = before;
      throw error;
    } finally {
      const isSlow = nowMs() - startedMs > SLOW_MS;
      size = isSlow ? Math.max(FIRST_BATCH, Math.floor(limit / 2)) : Math.min(MAX_BATCH, limit * 2);
    }
  };

  return {
    async pass() {
      while (!options.isStopped()) {
        const { isLast, tookMs } = await batch();
        if (isLast) break;
        await options.sleep(tookMs * REST);
      }
      if (nowMs() - roundSinceMs < ROUND_MS) return;
      roundSinceMs = nowMs();
      after = null;
    },
  };
}
