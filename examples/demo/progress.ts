import process from "node:process";

/** How many charts each worker has made. */
export type Made = ReadonlyMap<string, number>;

/** Shows how far the charts are: one line that moves on a terminal, a line per quarter elsewhere. */
export interface Progress {
  show(made: Made): void;
  /** Prints a line of its own, above the moving one. */
  say(text: string): void;
  end(): void;
}

const WIDTH = 30;

/** Creates a progress display for `total` charts. */
export function createProgress(total: number): Progress {
  const isTerminal = process.stdout.isTTY === true;
  let line = "";
  let quarters = 0;
  const clear = () => {
    if (isTerminal && line !== "") process.stdout.write("\r\u001b[2K");
  };
  return {
    show(made) {
      line = lineOf(made, total);
      const reached = Math.floor((sum(made) / total) * 4);
      clear();
      if (isTerminal) process.stdout.write(line);
      else if (reached > quarters) console.log(line);
      quarters = reached;
    },
    say(text) {
      clear();
      console.log(text);
      if (isTerminal) process.stdout.write(line);
    },
    end() {
      if (isTerminal && line !== "") process.stdout.write("\n");
      line = "";
    },
  };
}

function lineOf(made: Made, total: number): string {
  const filled = Math.round((sum(made) / total) * WIDTH);
  const bar = "█".repeat(filled) + "░".repeat(WIDTH - filled);
  const shares = [...made].map(([worker, count]) => `${worker}: ${count}`);
  return `   ${bar} ${sum(made)} of ${total} charts   ${shares.join("  ")}`;
}

/** All charts together. */
export function sum(made: Made): number {
  return [...made.values()].reduce((all, count) => all + count, 0);
}
