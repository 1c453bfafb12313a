import process from "node:process";
import type { Progress } from "../fleet/count-jobs.js";

/** On what is not a terminal, one line in so many milliseconds. */
const PLAIN_EVERY_MS = 10_000;

/** Shows how far a run is: in place on a terminal, else as a line now and then. */
export function createProgressLine(): { show(progress: Progress): void; end(): void } {
  let lastMs = Number.NEGATIVE_INFINITY;
  return {
    show(progress) {
      const text = describe(progress);
      if (process.stderr.isTTY) {
        process.stderr.write(`\r\u001b[K${text}`);
      } else if (performance.now() - lastMs >= PLAIN_EVERY_MS) {
        lastMs = performance.now();
        process.stderr.write(`${text}\n`);
      }
    },
    end() {
      if (process.stderr.isTTY) process.stderr.write("\r\u001b[K");
    },
  };
}

const describe = ({ phase, elapsedMs, drawn, open, struck, planned }: Progress): string =>
  `${(elapsedMs / 1_000).toFixed(0).padStart(5)} s  ${phase.padEnd(5)}  ${drawn} enqueued, ${open} open, ${struck} of ${planned} faults`;
