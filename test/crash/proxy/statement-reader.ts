import { type Message, sqlOf } from "./frames.js";

/** Follows which statement a connection is about to have carried out. */
export interface StatementReader {
  read(message: Message): void;
  /** The name of the present statement: its own if it is prepared under one, else the beginning of its text. */
  current(): string;
}

/** So much of a text tells statements apart. */
const SHOWN_LENGTH = 60;

/** Creates a reader for one connection's messages to the server. */
export function createStatementReader(): StatementReader {
  const names = new Map<string, string>();
  let current = "";
  return {
    read(message) {
      const sql = sqlOf(message);
      if (message.type === "Q") current = labelOf(sql ?? "");
      if (message.type === "P") {
        const name = textAt(message.bytes, 5);
        names.set(name, name === "" ? labelOf(sql ?? "") : name.replace("drizzle_queue_", ""));
      }
      // A Bind names its portal first, then the statement.
      if (message.type === "B") {
        current = names.get(textAt(message.bytes, message.bytes.indexOf(0, 5) + 1)) ?? "unknown";
      }
    },
    current: () => current,
  };
}

const labelOf = (sql: string): string =>
  sql.replaceAll(/\s+/g, " ").trim().slice(0, SHOWN_LENGTH).toLowerCase();

const textAt = (bytes: Buffer, from: number): string =>
  bytes.toString("utf8", from, bytes.indexOf(0, from));
