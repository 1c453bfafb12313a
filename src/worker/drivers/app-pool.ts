import { isPgPool } from "./node-postgres.js";

/** The part of node-postgres' emitters that is used. */
interface Emitter {
  on(event: string, listener: (argument: never, client: never) => void): unknown;
}

/** A client of the pool, as far as it is used. */
interface PooledClient extends Emitter {
  release(error?: Error): void;
}

type Watcher = (error: unknown) => void;

/** Who wants to hear of each pool's lost connections; a pool is listened to once, and from then on. */
const watchersOf = new WeakMap<object, Set<Watcher>>();

/**
 * Keeps the loss of one of the app pool's connections from ending the process.
 *
 * node-postgres emits such a loss as an "error" event, also while the
 * connection is checked out for a transaction, and Node ends a process that
 * listens to none. Whoever awaits a query on it is still rejected.
 *
 * A connection that is lost while Drizzle sends its `begin` would never be given
 * back, until `commit` waits for a free one without end: it is given back here.
 *
 * @returns A function that ends the watching, not the protection.
 */
export function watchAppPool(client: unknown, onLost: Watcher): () => void {
  if (!isPgPool(client)) return () => {};
  let watchers = watchersOf.get(client);
  if (watchers === undefined) {
    watchers = new Set();
    watchersOf.set(client, watchers);
    protect(client as unknown as Emitter, watchers);
  }
  watchers.add(onLost);
  return () => watchers.delete(onLost);
}

function protect(pool: Emitter, watchers: ReadonlySet<Watcher>): void {
  const known = new WeakSet<object>();
  const lost = new WeakSet<object>();
  const checkedOut = new WeakSet<object>();
  const tell = (error: unknown, client: object): void => {
    // One loss may come as two errors: the server's last word, then the end of the stream.
    if (lost.has(client)) return;
    lost.add(client);
    for (const watcher of watchers) watcher(error);
  };
  pool.on("error", tell);
  const giveBack = (client: PooledClient): void => {
    if (!checkedOut.has(client)) return;
    client.release(new Error("The server ended the connection."));
    // Whoever had it checked out gives it back once more, which would throw.
    client.release = () => {};
  };
  pool.on("acquire", (client: PooledClient) => {
    checkedOut.add(client);
    if (known.has(client)) return;
    known.add(client);
    client.on("error", (error: unknown) => tell(error, client));
    client.on("end", () => giveBack(client));
  });
  pool.on("release", (_error: unknown, client: object) => checkedOut.delete(client));
}
