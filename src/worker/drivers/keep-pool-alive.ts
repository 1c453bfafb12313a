/** The parts of a node-postgres Pool that are used. */
interface EventfulPool {
  on(event: string, listener: (...details: never[]) => void): unknown;
}

/** The parts of a client of that pool that are used. */
interface PooledClient extends EventfulPool {
  release(error?: Error): void;
}

const pools = new WeakSet<object>();

/**
 * Lets process and pool survive when the server ends connections of the app's pool.
 *
 * An idle connection that ends tells the pool, one that a transaction has
 * checked out tells its client: with nobody listening, either ends the process.
 * And a connection that ends while Drizzle sends its `begin` is never given
 * back, so that `commit` would one day wait for a free one without end.
 */
export function keepPoolAlive(pool: EventfulPool): void {
  if (pools.has(pool)) return;
  pools.add(pool);
  const known = new WeakSet<PooledClient>();
  const checkedOut = new WeakSet<PooledClient>();
  pool.on("error", () => undefined);
  pool.on("acquire", (client: PooledClient) => {
    checkedOut.add(client);
    if (known.has(client)) return;
    known.add(client);
    client.on("error", () => undefined);
    client.on("end", () => {
      if (!checkedOut.has(client)) return;
      client.release(new Error("The server ended the connection."));
      // Whoever has it still checked out gives it back a second time, which would throw.
      client.release = () => undefined;
    });
  });
  pool.on("release", (_error: unknown, client: PooledClient) => checkedOut.delete(client));
}
