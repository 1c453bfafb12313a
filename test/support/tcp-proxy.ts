import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** Which way bytes travel. */
export type Direction = "toServer" | "toClient";

/** One client connection through the proxy, counted from 1. */
export interface ProxiedConnection {
  readonly id: number;
  /** Ends it at once on both sides, as a broken network does. */
  cut(): void;
  /** Loses everything from now on, both ways, and that it has ended, too: each side is left believing in the other. */
  silence(): void;
}

/** Looks at bytes before they are passed on, and says whether they are. */
export type Intercept = (
  chunk: Buffer,
  direction: Direction,
  connection: ProxiedConnection,
) => "pass" | "drop";

/** A network between a test and its database that can be broken in the ways networks break. */
export interface TcpProxy {
  /** The database's URL, through the proxy. */
  readonly url: string;
  readonly connections: readonly ProxiedConnection[];
  /** Ends all connections at once; new ones are accepted. */
  cut(): void;
  /** Holds all bytes of a direction, or of both, as if packets were lost. Nobody is told. */
  swallow(direction?: Direction): void;
  /** Ends `swallow` and `refuse`; what was held is delivered. */
  resume(): void;
  /** New connections are cut at once. */
  refuse(): void;
  /** Every chunk travels this much longer; 0 ends it. */
  delay(ms: number): void;
  /** Every chunk is shown to this function first; undefined ends it. */
  intercept(look: Intercept | undefined): void;
  close(): Promise<void>;
}

interface Network {
  readonly held: Set<Direction>;
  delayMs: number;
  refusing: boolean;
  look: Intercept | undefined;
}

interface Pair extends ProxiedConnection {
  /** Delivers what was held. */
  deliver(): void;
}

/** Starts a proxy on a free port in front of the database of a URL. */
export async function createTcpProxy(targetUrl: string): Promise<TcpProxy> {
  const target = new URL(targetUrl);
  const network: Network = { held: new Set(), delayMs: 0, refusing: false, look: undefined };
  const pairs = new Map<number, Pair>();
  let lastId = 0;
  const server = createServer((client) => {
    if (network.refusing) {
      client.on("error", ignoreReset).resetAndDestroy();
      return;
    }
    const upstream = connect(Number(target.port || 5432), target.hostname);
    const pair = join(++lastId, client, upstream, network);
    pairs.set(pair.id, pair);
    // A swallowed end leaves the other side open, to be cut later.
    const forget = () => client.closed && upstream.closed && pairs.delete(pair.id);
    client.once("close", forget);
    upstream.once("close", forget);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  const url = new URL(targetUrl);
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as AddressInfo).port);
  const cut = () => pairs.forEach((pair) => pair.cut());
  return {
    url: url.href,
    get connections() {
      return [...pairs.values()];
    },
    cut,
    swallow(direction) {
      for (const each of direction === undefined
        ? (["toServer", "toClient"] as const)
        : [direction]) {
        network.held.add(each);
      }
    },
    resume() {
      network.held.clear();
      network.refusing = false;
      for (const pair of pairs.values()) pair.deliver();
    },
    refuse() {
      network.refusing = true;
    },
    delay(ms) {
      network.delayMs = ms;
    },
    intercept(look) {
      network.look = look;
    },
    async close() {
      const closed = once(server, "close");
      server.close();
      cut();
      await closed;
    },
  };
}

function join(id: number, client: Socket, upstream: Socket, network: Network): Pair {
  let isSilent = false;
  const connection: Connection = {
    id,
    silence() {
      isSilent = true;
    },
    isSilent: () => isSilent,
    cut() {
      client.resetAndDestroy();
      upstream.resetAndDestroy();
    },
  };
  // Small messages back and forth: without this, they would wait for each other's acknowledgement.
  for (const socket of [client, upstream]) socket.setNoDelay(true).on("error", ignoreReset);
  const toServer = forward(
    { from: client, to: upstream, direction: "toServer" },
    connection,
    network,
  );
  const toClient = forward(
    { from: upstream, to: client, direction: "toClient" },
    connection,
    network,
  );
  return {
    ...connection,
    deliver() {
      toServer();
      toClient();
    },
  };
}

interface Connection extends ProxiedConnection {
  isSilent(): boolean;
}

interface Way {
  readonly from: Socket;
  readonly to: Socket;
  readonly direction: Direction;
}

interface Parcel {
  readonly chunk: Buffer | undefined;
  readonly dueAt: number;
}

/** Passes on one direction in order; returns a function to go on after `swallow`. */
function forward(
  { from, to, direction }: Way,
  connection: Connection,
  network: Network,
): () => void {
  const parcels: Parcel[] = [];
  let timer: NodeJS.Timeout | undefined;

  function deliver(): void {
    clearTimeout(timer);
    while (!network.held.has(direction)) {
      const next = parcels[0];
      if (next === undefined || to.destroyed) return;
      const waitMs = next.dueAt - performance.now();
      if (waitMs > 0) {
        timer = setTimeout(deliver, waitMs);
        return;
      }
      parcels.shift();
      if (connection.isSilent()) continue;
      if (next.chunk === undefined) to.end();
      else if (network.look?.(next.chunk, direction, connection) !== "drop") to.write(next.chunk);
    }
  }

  function accept(chunk: Buffer | undefined): void {
    parcels.push({ chunk, dueAt: performance.now() + network.delayMs });
    deliver();
  }

  from.on("data", (chunk: Buffer) => accept(chunk));
  from.on("end", () => accept(undefined));
  // A swallowed end stays unknown to the other side, as it would with a cable pulled.
  from.on("close", (hadError: boolean) => {
    if (hadError && !network.held.has(direction) && !connection.isSilent()) to.destroy();
  });
  return deliver;
}

/** A connection that we break reports what we did to it; the two ends are what tests look at. */
function ignoreReset(): void {
  return undefined;
}
