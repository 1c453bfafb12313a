/** One message of PostgreSQL's protocol, whole. */
export interface Message {
  /** Its type as a letter; empty for the first one of a client, which has none. */
  readonly type: string;
  readonly bytes: Buffer;
}

/** Cuts a stream of bytes into messages; what is not whole yet waits. */
export interface Frames {
  push(chunk: Buffer): Message[];
}

/**
 * Creates the frames of one direction.
 *
 * @param startsUntyped Whether the first message lacks its type, as a client's does.
 */
export function createFrames(startsUntyped: boolean): Frames {
  let rest: Buffer = Buffer.alloc(0);
  let isFirst = startsUntyped;
  return {
    push(chunk) {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      const messages: Message[] = [];
      let at = 0;
      for (;;) {
        const head = isFirst ? 0 : 1;
        if (rest.length - at < head + 4) break;
        const length = head + rest.readUInt32BE(at + head);
        if (rest.length - at < length) break;
        const type = isFirst ? "" : String.fromCharCode(rest[at] ?? 0);
        messages.push({ type, bytes: rest.subarray(at, at + length) });
        at += length;
        isFirst = false;
      }
      rest = rest.subarray(at);
      return messages;
    },
  };
}

/** The application's name that a client gives when it connects. */
export function applicationName({ bytes }: Message): string {
  const parts = bytes.toString("utf8", 8).split("\0");
  const place = parts.indexOf("application_name");
  return place === -1 ? "unknown" : (parts[place + 1] ?? "unknown");
}

/** The SQL that a client's message carries: that of a simple query, or of one to be prepared. */
export function sqlOf({ type, bytes }: Message): string | undefined {
  if (type === "Q") return bytes.toString("utf8", 5, bytes.length - 1);
  if (type !== "P") return undefined;
  const nameEnd = bytes.indexOf(0, 5);
  return bytes.toString("utf8", nameEnd + 1, bytes.indexOf(0, nameEnd + 1));
}

/** Whether a message makes the server carry something out. */
export const isRequest = ({ type }: Message): boolean => type === "Q" || type === "E";

/** Whether a message asks to commit. */
export const isCommit = (message: Message): boolean => /^\s*commit\b/i.test(sqlOf(message) ?? "");

/** Whether the server has said that it is done with what it was asked. */
export const isReady = ({ type }: Message): boolean => type === "Z";
