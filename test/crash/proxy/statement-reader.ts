import { type Message, sqlOf } from "./frames.js";

/** Follows which statement a connection is about to have carried out. */
export interface StatementReader {
  read(message: Message): void;
  /** The name of the present statement: its own if it is prepared under one, else the beginning of its text. */
  current(): string;
  /** Its whole text. */
  text(): string;
}

interface Statement {
  readonly label: string;
  readonly text: string;
}

const UNKNOWN: Statement = { label: "unknown", text: "" };

/** So much of a text tells statements apart. */
const SHOWN_LENGTH = 60;

/** Creates a reader for one connection's messages to the server. */
export function createStatementReader(): StatementReader {
  const prepared = new Map<string, Statement>();
  let current: Statement = UNKNOWN;
  return {
    read(message) {
      const sql = sqlOf(message);
      if (message.type === "Q") current = { label: labelOf(sql ?? ""), text: sql ?? "" };
      if (message.type === "P") {
        const name = textAt(message.bytes, 5);
        const label = name === "" ? labelOf(sql ?? "") : name.replace("drizzle_queue_", "");
        prepared.set(name, { label, text: sql ?? "" });
      }
      // A Bind names its portal first, then the statement.
      if (message.type === "B") {
        const name = textAt(message.bytes, message.bytes.indexOf(0, 5) + 1);
        current = prepared.get(name) ?? UNKNOWN;
      }
    },
    current: () => current.label,
    text: () => current.text,
  };
}

const labelOf = (sql: string): string =>
  sql.replaceAll(/\s+/g, " ").trim().slice(0, SHOWN_LENGTH).toLowerCase();

const textAt = (bytes: Buffer, from: number): string =>
  bytes.toString("utf8", from, bytes.indexOf(0, from));
