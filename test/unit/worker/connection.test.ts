import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import type { QueueEvent } from "drizzle-queue";
import { afterEach, expect, test, vi } from "vitest";
import type { Row } from "../../../src/queries/executor.js";
import { createConnection } from "../../../src/worker/connection.js";
import { withDeadline } from "../../../src/worker/deadline.js";
import type { Driver } from "../../../src/worker/drivers/driver.js";

afterEach(() => vi.useRealTimers());

const statement = (name: string) => ({ name, text: `select '${name}'`, values: [] });

/** A driver that writes down what it is told; `query` answers a statement. */
function createDriver(query: (name: string) => Promise<readonly Row[]>) {
  const said: string[] = [];
  let connections = 0;
  const driver: Driver = {
    kind: "node-postgres",
    hasOwnConnections: true,
    async connect() {
      connections += 1;
      const number = connections;
      return {
        async query({ name }) {
          said.push(name);
          return query(name);
        },
        async script(sql) {
          said.push(sql.trim().split(" ", 1)[0] ?? "");
        },
        async listen() {},
        async end() {},
        destroy() {
          said.push(`drop ${number}`);
        },
      };
    },
  };
  return { driver, said };
}

function connectionOn(driver: Driver, throughPooler: boolean) {
  const events: QueueEvent[] = [];
  const connection = createConnection({
    role: "main",
    driver,
    deadlineMs: 1_000,
    throughPooler,
    peer: undefined,
    emit: (event) => events.push(event),
  });
  return { connection, events };
}

test("behind a pooler, statements asked for at the same time have a transaction each", async () => {
  const { driver, said } = createDriver(async (name) => {
    if (name === "b") throw new Error("refused");
    return [];
  });
  const { connection } = connectionOn(driver, true);
  const results = await Promise.allSettled(
    ["a", "b", "c"].map((name) => connection.run(statement(name))),
  );
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(said).toEqual(["begin", "a", "commit", "begin", "b", "rollback", "begin", "c", "commit"]);
});

test("a server that has become a standby is left for another one", async () => {
  let isStandby = true;
  const { driver, said } = createDriver(async () => {
    if (isStandby) throw Object.assign(new Error("read-only"), { code: "25006" });
    return [{ answer: 1 }];
  });
  const { connection, events } = connectionOn(driver, false);
  await expect(connection.run(statement("a"))).rejects.toThrow("read-only");
  expect(said.at(-1)).toBe("drop 1");
  expect(connection.isConnected()).toBe(false);
  isStandby = false;
  expect(await connection.run(statement("b"))).toEqual([{ answer: 1 }]);
  expect(events.map(({ type }) => type)).toEqual(["connection.lost", "connection.restored"]);
});

test("who listens is told when a statement has made the connection anew", async () => {
  let isStandby = false;
  const { driver } = createDriver(async () => {
    if (isStandby) throw Object.assign(new Error("read-only"), { code: "25006" });
    return [];
  });
  const { connection } = connectionOn(driver, false);
  expect(connection.isListening()).toBe(false);
  await connection.listen("jobs", () => undefined);
  expect(connection.isListening()).toBe(true);
  isStandby = true;
  await expect(connection.run(statement("a"))).rejects.toThrow("read-only");
  isStandby = false;
  await connection.run(statement("b"));
  expect(connection.isConnected()).toBe(true);
  expect(connection.isListening()).toBe(false);
});

test("another error leaves the connection as it is", async () => {
  const { driver, said } = createDriver(async () => {
    throw Object.assign(new Error("duplicate key"), { code: "23505" });
  });
  const { connection } = connectionOn(driver, false);
  await expect(connection.run(statement("a"))).rejects.toThrow("duplicate key");
  expect(connection.isConnected()).toBe(true);
  expect(said).toEqual(["set", "a"]);
});

test("a connection that ends in the breath of its first answer is not kept, but made anew", async () => {
  let made = 0;
  const driver: Driver = {
    kind: "node-postgres",
    hasOwnConnections: true,
    async connect({ onLost }) {
      made += 1;
      const isDoomed = made === 1;
      return {
        query: () => (isDoomed ? Promise.reject(new Error("not queryable")) : Promise.resolve([])),
        script() {
          const answered = Promise.resolve();
          // As when one packet holds the answer and the server's goodbye.
          if (isDoomed) onLost(new Error("terminating connection due to administrator command"));
          return answered;
        },
        listen: () => Promise.resolve(),
        end: () => Promise.resolve(),
        destroy: () => undefined,
      };
    },
  };
  const connection = createConnection({
    role: "main",
    driver,
    deadlineMs: 1_000,
    throughPooler: false,
    peer: undefined,
    emit: undefined,
  });
  await expect(connection.run(statement("a"))).rejects.toThrow("terminating connection");
  expect(connection.isConnected()).toBe(false);
  await expect(connection.run(statement("a"))).resolves.toEqual([]);
  expect(made).toBe(2);
});

test("connections that are made after their time are dropped, however many", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const late: (() => void)[] = [];
  const open = new Set<number>();
  const driver: Driver = {
    kind: "node-postgres",
    hasOwnConnections: true,
    connect() {
      const number = late.length;
      return new Promise((resolve) => {
        late.push(() => {
          open.add(number);
          resolve({
            query: () => Promise.resolve([]),
            script: () => Promise.resolve(),
            listen: () => Promise.resolve(),
            end: () => Promise.resolve(),
            destroy: () => void open.delete(number),
          });
        });
      });
    },
  };
  const { connection } = connectionOn(driver, false);
  for (let round = 1; round <= 300; round += 1) {
    const outcome = connection.run(statement("a")).catch(String);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await outcome).toContain("connecting (main)");
  }
  for (const make of late) make();
  expect(open.size).toBe(300);
  await vi.advanceTimersByTimeAsync(0);
  expect(open.size).toBe(0);
  expect(connection.isConnected()).toBe(false);
});

test("an answer that arrived while the event loop was blocked counts, though its deadline has passed", async () => {
  const server = createServer((socket) => void setTimeout(() => socket.write("answer"), 20));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  await once(socket, "connect");
  const answer = once(socket, "data");
  const waited = withDeadline(50, "an answer", answer);
  await new Promise((resolve) => setTimeout(resolve, 10));
  const untilMs = performance.now() + 100;
  while (performance.now() < untilMs);
  await expect(waited).resolves.toBeDefined();
  socket.destroy();
  server.close();
});

test("the server is to give a statement up before we do: then it is known that nothing was done", async () => {
  const { driver, said } = createDriver(async () => []);
  const scripts: string[] = [];
  const connecting = driver.connect.bind(driver);
  const { connection } = connectionOn(
    {
      ...driver,
      async connect(options) {
        const link = await connecting(options);
        return { ...link, script: async (sql) => void scripts.push(sql) };
      },
    },
    false,
  );
  await connection.run(statement("a"));
  expect(said).toEqual(["a"]);
  expect(scripts.join()).toContain("statement_timeout = 900;");
});

test("a session that has no answer after the deadline is ended over another connection before anything else is sent", async () => {
  const { driver } = createDriver((name) =>
    name === "drizzle_queue_backend"
      ? Promise.resolve([{ pid: 42 }])
      : new Promise<never>(() => undefined),
  );
  const asked: unknown[] = [];
  const connecting = driver.connect.bind(driver);
  let moved = 0;
  const connection = createConnection({
    role: "main",
    // Bytes flow all the time: nobody gives the answer up before the deadline.
    driver: {
      ...driver,
      connect: async (options) => ({
        ...(await connecting(options)),
        transferredBytes: () => (moved += 1),
      }),
    },
    deadlineMs: 50,
    throughPooler: false,
    peer: () => ({
      async run({ name, values }) {
        asked.push(name, ...values);
        return [];
      },
    }),
    emit: undefined,
  });
  await expect(connection.run(statement("a"))).rejects.toThrow("No answer after 50 ms");
  expect(asked).toEqual(["drizzle_queue_terminate_backend", 42]);
});
