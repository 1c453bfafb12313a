import type { Random } from "../plan/random.js";

/** The order in which actors take their steps: each entry is the actor whose turn it is. */
export type Order = readonly number[];

/** Every order in which two actors can take their steps. */
export function allOrders(first: number, second: number): Order[] {
  if (first === 0) return [Array.from({ length: second }, () => 1)];
  if (second === 0) return [Array.from({ length: first }, () => 0)];
  return [
    ...allOrders(first - 1, second).map((rest) => [0, ...rest]),
    ...allOrders(first, second - 1).map((rest) => [1, ...rest]),
  ];
}

/** One order of any number of actors, at random. */
export function randomOrder(random: Random, steps: readonly number[]): Order {
  return random.shuffle(
    steps.flatMap((count, actor) => Array.from({ length: count }, () => actor)),
  );
}
