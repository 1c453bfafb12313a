import type { Socket } from "node:net";
import type { ConnectionKind } from "../plan/fault.js";
import {
  applicationName,
  createFrames,
  isReady,
  isRequest,
  type Message,
  sqlOf,
} from "./frames.js";
import { createStatementReader } from "./statement-reader.js";

/** Which way messages travel. */
export type Direction = "toServer" | "toClient";

/** What is done with a message that a trap is shown. */
export type Verdict =
  | "pass"
  /** Both sides are reset, the message with them. */
  | "cut"
  /** It is carried out, but its answer is lost, and then the connection. */
  | "lose-answer"
  /** Half of it arrives. */
  | "tear"
  | { readonly holdMs: number }
  /** Something happens once the server has answered, whether or not the client gets the answer. */
  | { readonly onAnswer: () => void; readonly passesAnswer: boolean };

/** Waits for a message and decides about it; undefined: not the one that it waits for. The statement is what the client asked for last. */
export type Trap = (
  message: Message,
  direction: Direction,
  statement: string,
) => Verdict | undefined;

/** Waits for a statement that is about to be carried out. */
export type StatementTrap = (statement: string, link: Link) => Verdict | undefined;

/** One client's connection through the proxy. */
export interface Link {
  readonly id: number;
  kind(): ConnectionKind | "unknown";
  isOpen(): boolean;
  reset(): void;
  /** Ends it in good order, as a pooler that restarts does. */
  finish(): void;
  /** Closes the server's side; the client hears nothing any more. */
  halve(): void;
  delay(direction: Direction, ms: number): void;
  swallow(direction: Direction, isSwallowing: boolean): void;
  /** What waits on its way to the server arrives now. */
  release(): void;
  /** Acts on the first message that `trap` wants. */
  arm(trap: Trap): void;
}

/** What a link tells of itself. */
export interface LinkWatcher {
  said(link: number, what: string): void;
  ran(application: string, sql: string): void;
  /** A statement is about to be carried out. */
  asked(statement: string, link: Link, text: string): Verdict | undefined;
}

/** Our own connections by the name that they give. */
const KINDS: Readonly<Record<string, ConnectionKind>> = {
  "drizzle-queue main": "main",
  "drizzle-queue renewal": "renewal",
  "drizzle-queue listen": "listen",
  app: "app",
  "app outside": "app",
};

interface Lane {
  readonly to: Socket;
  delayMs: number;
  isSwallowing: boolean;
  heldUntilMs: number;
  timer: NodeJS.Timeout | undefined;
  readonly waiting: { readonly bytes: Buffer | undefined; dueMs: number }[];
}

/** Joins a client with a server and passes on whole messages, in order, as far as faults let them. */
export function createLink(id: number, client: Socket, server: Socket, watcher: LinkWatcher): Link {
  let application = "unknown";
  let isHalved = false;
  let answering: { readonly onAnswer: () => void; readonly passesAnswer: boolean } | undefined;
  let isTorn = false;
  const traps = new Set<Trap>();
  const statements = createStatementReader();
  const lanes: Record<Direction, Lane> = { toServer: lane(server), toClient: lane(client) };

  const reset = (): void => {
    for (const { timer } of Object.values(lanes)) clearTimeout(timer);
    client.resetAndDestroy();
    server.resetAndDestroy();
  };

  const sprung = (message: Message, direction: Direction): Verdict => {
    for (const trap of traps) {
      const verdict = trap(message, direction, statements.current());
      if (verdict === undefined) continue;
      traps.delete(trap);
      return verdict;
    }
    return "pass";
  };

  const carry = (message: Message, direction: Direction): void => {
    if (isTorn) return;
    if (direction === "toServer") {
      read(message);
      const asked = isRequest(message)
        ? watcher.asked(statements.current(), link, statements.text())
        : undefined;
      act(message, direction, asked ?? sprung(message, direction));
    } else if (answering === undefined) act(message, direction, sprung(message, direction));
    else answer(message, answering);
  };

  /** Once the server is done, so that what it did is done. */
  const answer = (message: Message, { onAnswer, passesAnswer }: NonNullable<typeof answering>) => {
    if (passesAnswer) enqueue(lanes.toClient, message.bytes, 0);
    if (!isReady(message)) return;
    answering = undefined;
    if (passesAnswer) lanes.toClient.to.write("", onAnswer);
    else onAnswer();
  };

  const read = (message: Message): void => {
    if (message.type === "") application = applicationName(message);
    statements.read(message);
    const sql = sqlOf(message);
    if (sql !== undefined) watcher.ran(application, sql);
  };

  const act = ({ bytes }: Message, direction: Direction, verdict: Verdict): void => {
    if (verdict === "cut") return reset();
    if (verdict === "tear") {
      isTorn = true;
      lanes[direction].to.write(bytes.subarray(0, bytes.length >> 1), reset);
      return;
    }
    if (verdict === "lose-answer") answering = { onAnswer: reset, passesAnswer: false };
    if (typeof verdict === "object" && "onAnswer" in verdict) answering = verdict;
    const heldMs = typeof verdict === "object" && "holdMs" in verdict ? verdict.holdMs : 0;
    enqueue(lanes[direction], bytes, heldMs);
  };

  const join = (from: Socket, direction: Direction): void => {
    const frames = createFrames(direction === "toServer");
    from.setNoDelay(true);
    // Whoever breaks off is heard of by the other side.
    from.on("error", () => undefined);
    from.on("data", (chunk: Buffer) => {
      if (isHalved && direction === "toServer") return;
      for (const message of frames.push(chunk)) carry(message, direction);
    });
    from.on("close", () => {
      if (isHalved && direction === "toClient") return;
      enqueue(lanes[direction], undefined, 0);
    });
  };
  const link: Link = {
    id,
    kind: () => KINDS[application] ?? "unknown",
    isOpen: () => !client.destroyed && !isHalved,
    reset,
    finish: () => void [client, server].map((socket) => socket.end()),
    halve() {
      isHalved = true;
      server.resetAndDestroy();
    },
    delay(direction, ms) {
      lanes[direction].delayMs = ms;
    },
    swallow(direction, isSwallowing) {
      lanes[direction].isSwallowing = isSwallowing;
      if (!isSwallowing) deliver(lanes[direction]);
    },
    release() {
      const way = lanes.toServer;
      way.heldUntilMs = 0;
      for (const message of way.waiting) message.dueMs = 0;
      deliver(way);
    },
    arm(trap) {
      traps.add(trap);
    },
  };
  join(client, "toServer");
  join(server, "toClient");
  return link;
}

const lane = (to: Socket): Lane => ({
  to,
  delayMs: 0,
  isSwallowing: false,
  heldUntilMs: 0,
  timer: undefined,
  waiting: [],
});

/** Nothing overtakes: what is held back holds back all that follows. */
function enqueue(way: Lane, bytes: Buffer | undefined, heldMs: number): void {
  const now = performance.now();
  way.heldUntilMs = Math.max(way.heldUntilMs, now + way.delayMs + heldMs);
  way.waiting.push({ bytes, dueMs: way.heldUntilMs });
  deliver(way);
}

function deliver(way: Lane): void {
  clearTimeout(way.timer);
  while (!way.isSwallowing) {
    const [next] = way.waiting;
    if (next === undefined || way.to.destroyed) return;
    const waitMs = next.dueMs - performance.now();
    if (waitMs > 0) {
      way.timer = setTimeout(() => deliver(way), waitMs);
      return;
    }
    way.waiting.shift();
    if (next.bytes === undefined) way.to.destroy();
    else way.to.write(next.bytes);
  }
}
