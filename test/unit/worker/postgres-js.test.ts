import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import postgres from "postgres";
import { expect, test } from "vitest";
import { isPostgresJs, postgresJsDriver } from "../../../src/worker/drivers/postgres-js.js";
import { waitUntil } from "../../support/wait-until.js";

test("connecting to a proxy that accepts and hangs up is given up after its time, and nothing goes on", async () => {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const app: unknown = postgres(`postgres://app:secret@127.0.0.1:${port}/app`, { max: 1 });
  if (!isPostgresJs(app)) throw new TypeError("not recognised");
  const driver = postgresJsDriver(app);
  const connecting = driver.connect({
    applicationName: "test",
    timeoutMs: 200,
    onLost: () => undefined,
  });
  await expect(connecting).rejects.toThrow("No answer after 200 ms");
  expect(connections).toBeGreaterThan(0);
  // Going on, it would make a hundred attempts in this time.
  let seen = 0;
  await waitUntil(
    "no further attempt is made",
    () => {
      const isOver = seen === connections;
      seen = connections;
      return isOver;
    },
    { intervalMs: 500 },
  );
  server.close();
});
