/** Runs one thing after the other, in the order in which they were asked for. */
export type InTurn = <T>(run: () => Promise<T>) => Promise<T>;

/** Creates a line in which nobody waits yet. */
export function createTurns(): InTurn {
  let last: Promise<unknown> = Promise.resolve();
  return (run) => {
    const ran = last.then(run);
    last = ran.catch(() => undefined);
    return ran;
  };
}
