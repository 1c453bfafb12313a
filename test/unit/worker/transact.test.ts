import { expect, test } from "vitest";
import type { PgDatabase, PgTransaction } from "../../../src/queries/transaction.js";
import type { Driver } from "../../../src/worker/drivers/driver.js";
import { transactOf } from "../../../src/worker/drivers/transact.js";

const tx = { execute: () => Promise.resolve([]) } as unknown as PgTransaction;
const driver = { kind: "postgres.js" } as Driver;
const closed = Object.assign(new Error("write CONNECTION_CLOSED"), { code: "CONNECTION_CLOSED" });

/** A database as postgres.js makes them: a transaction rejects by itself when its connection closes. */
function createDatabase() {
  let close = (): void => {};
  const loss = new Promise<never>((_, reject) => {
    close = () => reject(closed);
  });
  const callbacks: string[] = [];
  const db = {
    transaction(run: (tx: PgTransaction) => Promise<unknown>) {
      const callback = run(tx);
      // What postgres.js would send next, over a connection that is gone.
      callback.then(
        () => callbacks.push("commit"),
        () => callbacks.push("rollback"),
      );
      return Promise.race([callback, loss]);
    },
  } as unknown as PgDatabase;
  return { db, close, callbacks };
}

/** Lets every promise that can settle do so. */
const settle = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

test("the callback of a lost transaction never ends, whichever of the two errors comes first", async () => {
  const { db, close, callbacks } = createDatabase();
  const fatal = Object.assign(new Error("terminating connection"), { severity: "FATAL" });
  const outcome = transactOf(driver)(db, () =>
    Promise.reject(new Error("Failed query", { cause: fatal })),
  );
  await settle();
  expect(callbacks).toEqual([]);
  close();
  await expect(outcome).rejects.toBe(closed);
  await settle();
  expect(callbacks).toEqual([]);
});

test("work that goes on after the loss is told of it, and sends nothing any more", async () => {
  const { db, close, callbacks } = createDatabase();
  let goOn = (): void => {};
  const paused = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const seen: boolean[] = [];
  const outcome = transactOf(driver)(db, async (_tx, { isLost }) => {
    seen.push(isLost());
    await paused;
    seen.push(isLost());
  });
  await settle();
  close();
  await expect(outcome).rejects.toBe(closed);
  goOn();
  await settle();
  expect(seen).toEqual([false, true]);
  expect(callbacks).toEqual([]);
});

test("an error of the work itself rolls back at once, and success commits", async () => {
  const failing = createDatabase();
  const mine = new Error("out of stock");
  await expect(transactOf(driver)(failing.db, () => Promise.reject(mine))).rejects.toBe(mine);
  const fine = createDatabase();
  await transactOf(driver)(fine.db, () => Promise.resolve());
  await settle();
  expect([failing.callbacks, fine.callbacks]).toEqual([["rollback"], ["commit"]]);
});

test("on node-postgres the pool is as it was, and a connection that is given up is destroyed", async () => {
  const destroyed: unknown[] = [];
  const client = { connection: { stream: { destroy: (reason: Error) => destroyed.push(reason) } } };
  class Pool {
    connect() {
      return Promise.resolve(client);
    }
  }
  const pool = new Pool();
  const reason = new Error("silent");
  const database = {
    $client: pool,
    async transaction(run: (tx: PgTransaction) => Promise<unknown>) {
      await pool.connect();
      return run(tx);
    },
  } as unknown as PgDatabase;
  const nodePostgres = transactOf({ kind: "node-postgres" } as Driver);
  const outcome = nodePostgres(database, async (_tx, { giveUp, isLost }) => {
    expect(isLost()).toBe(false);
    giveUp?.(reason);
    expect(isLost()).toBe(true);
  });
  expect(Object.keys(pool)).toEqual([]);
  await expect(outcome).rejects.toBe(reason);
  expect(destroyed).toEqual([reason]);
});
