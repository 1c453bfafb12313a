/** A stream of numbers that is the same for the same seed, so that a run can be planned again. */
export interface Random {
  /** From 0 up to, but not including, 1. */
  next(): number;
  /** A whole number from `from` to `to`, both included. */
  integer(from: number, to: number): number;
  pick<T>(list: readonly T[]): T;
  shuffle<T>(list: readonly T[]): T[];
}

/** Mulberry32: small, fast, and good enough to choose faults with. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const integer = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  return {
    next,
    integer,
    pick<T>(list: readonly T[]): T {
      if (list.length === 0) throw new RangeError("There is nothing to pick from.");
      return list[integer(0, list.length - 1)] as T;
    },
    shuffle<T>(list: readonly T[]): T[] {
      const left = [...list];
      const shuffled: T[] = [];
      while (left.length > 0) shuffled.push(...left.splice(integer(0, left.length - 1), 1));
      return shuffled;
    },
  };
}
