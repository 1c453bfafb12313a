import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import type { ConnectionKind, Slot } from "../plan/fault.js";
import { createLink, type Link, type StatementTrap } from "./link.js";

/** How often a process has sent each statement, by its label. */
export type Asked = ReadonlyMap<string, { readonly count: number; readonly isOnJobs: boolean }>;

/** A network between the fleet and the server, with a port for each process. */
export interface Proxy {
  /** Opens the port of a process; the same at each call. */
  urlFor(slot: Slot): Promise<string>;
  /** The open connections of a process, of one kind or all. */
  links(slot: Slot, kind: ConnectionKind): readonly Link[];
  /** Whether new connections of a process are turned away. */
  refuse(slot: Slot, isRefusing: boolean): void;
  /** Statements of a process on connections of this kind arrive at this time, on the local clock. */
  holdUntil(slot: Slot, kind: ConnectionKind, untilMs: number): void;
  /** What is on its way from a process arrives now, and its statements are held no longer. */
  release(slot: Slot): void;
  /** How long ago a process sent its last statement on a connection of this kind, in milliseconds. */
  silentMs(slot: Slot, kind: ConnectionKind): number;
  /** What a process has sent so far. */
  asked(slot: Slot): Asked;
  /** Shows every statement of a process, before it is carried out, to this function. */
  intercept(slot: Slot, trap: StatementTrap): void;
  /** The last things that happened, oldest first. */
  events(): readonly string[];
  /** Every statement text that was sent, by the application that sent it. */
  statements(): ReadonlyMap<string, ReadonlySet<string>>;
  close(): Promise<void>;
}

/** So many events are kept for whoever looks for the cause of a failure. */
const KEPT_EVENTS = 5_000;

interface Port {
  readonly server: Server;
  readonly links: Set<Link>;
  isRefusing: boolean;
}

/** Creates a proxy in front of the server of a URL. */
export function createProxy(targetUrl: string): Proxy {
  const target = new URL(targetUrl);
  const ports = new Map<Slot, Port>();
  const events: string[] = [];
  const statements = new Map<string, Set<string>>();
  const traps = new Map<Slot, StatementTrap>();
  const heldUntilMs = new Map<string, number>();
  const lastAskedMs = new Map<string, number>();
  const counts = new Map<Slot, Map<string, { count: number; isOnJobs: boolean }>>();
  let lastId = 0;

  const note = (text: string): void => {
    events.push(`${Date.now()} ${text}`);
    if (events.length > KEPT_EVENTS * 2) events.splice(0, KEPT_EVENTS);
  };

  const count = (slot: Slot, label: string, text: string): void => {
    const ofSlot = counts.get(slot) ?? new Map<string, { count: number; isOnJobs: boolean }>();
    counts.set(slot, ofSlot);
    const before = ofSlot.get(label);
    const isOnJobs = before?.isOnJobs === true || text.includes("queue_jobs");
    ofSlot.set(label, { count: (before?.count ?? 0) + 1, isOnJobs });
  };

  const open = async (slot: Slot): Promise<Port> => {
    const links = new Set<Link>();
    const server = createServer((client) => {
      if (port.isRefusing) {
        client.on("error", () => undefined).resetAndDestroy();
        note(`${slot} refused`);
        return;
      }
      const id = ++lastId;
      const link = createLink(id, client, connect(Number(target.port), target.hostname), {
        said: (connection, what) => note(`${slot} #${connection} ${what}`),
        ran(application, sql) {
          const texts = statements.get(application) ?? new Set();
          statements.set(application, texts.add(sql));
        },
        asked(statement, asking, text) {
          count(slot, statement, text);
          const place = `${slot} ${asking.kind()}`;
          const now = performance.now();
          lastAskedMs.set(place, now);
          const untilMs = Math.max(
            heldUntilMs.get(place) ?? 0,
            heldUntilMs.get(`${slot} any`) ?? 0,
          );
          const holdMs = untilMs - now;
          return holdMs > 0 ? { holdMs } : traps.get(slot)?.(statement, asking);
        },
      });
      links.add(link);
      note(`${slot} #${id} opened`);
      client.once("close", () => {
        links.delete(link);
        note(`${slot} #${id} ${link.kind()} closed`);
      });
    });
    const port: Port = { server, links, isRefusing: false };
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return port;
  };

  return {
    async urlFor(slot) {
      const port = ports.get(slot) ?? (await open(slot));
      ports.set(slot, port);
      const url = new URL(targetUrl);
      url.port = String((port.server.address() as AddressInfo).port);
      return url.href;
    },
    links: (slot, kind) =>
      [...(ports.get(slot)?.links ?? [])].filter(
        (link) => link.isOpen() && (kind === "any" || link.kind() === kind),
      ),
    refuse(slot, isRefusing) {
      const port = ports.get(slot);
      if (port !== undefined) port.isRefusing = isRefusing;
    },
    holdUntil: (slot, kind, untilMs) => void heldUntilMs.set(`${slot} ${kind}`, untilMs),
    release(slot) {
      for (const place of heldUntilMs.keys())
        if (place.startsWith(`${slot} `)) heldUntilMs.delete(place);
      for (const link of ports.get(slot)?.links ?? []) link.release();
    },
    silentMs: (slot, kind) =>
      performance.now() - (lastAskedMs.get(`${slot} ${kind}`) ?? Number.NEGATIVE_INFINITY),
    asked: (slot) => new Map(counts.get(slot)),
    intercept: (slot, trap) => void traps.set(slot, trap),
    events: () => events.slice(-KEPT_EVENTS),
    statements: () => statements,
    async close() {
      await Promise.all(
        [...ports.values()].map(async ({ server, links }) => {
          const closed = once(server, "close");
          server.close();
          for (const link of links) link.reset();
          await closed;
        }),
      );
    },
  };
}
