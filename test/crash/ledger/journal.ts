import { closeSync, openSync, readFileSync, writeSync } from "node:fs";

/** A file of JSON lines that outlives kill -9: what was written is in the system's memory, not the process's. */
export interface Journal<T> {
  write(entry: T): void;
  close(): void;
}

/** Opens a journal for appending. */
export function openJournal<T extends object>(path: string): Journal<T> {
  const file = openSync(path, "a");
  return {
    write: (entry) => void writeSync(file, `${JSON.stringify(entry)}\n`),
    close: () => closeSync(file),
  };
}

/** Reads a journal; a last line that a kill cut short is left out. */
export function readJournal<T>(path: string): T[] {
  const lines = readFileSync(path, "utf8").split("\n");
  lines.pop();
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as T);
}
