import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import postgres from "postgres";
import { expect, test } from "vitest";
import { isPostgresJs, postgresJsDriver } from "../../src/worker/drivers/postgres-js.js";

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
  const before = connections;
  expect(before).toBeGreaterThan(0);
  // As many attempts as there were before would fit in this time.
  await new Promise((resolve) => setTimeout(resolve, 200));
  // One may have been under way.
  expect(connections - before).toBeLessThanOrEqual(1);
  server.close();
});
