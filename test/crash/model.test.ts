import process from "node:process";
import { fileURLToPath } from "node:url";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import fc from "fast-check";
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type PostgresServer,
  startPostgresServer,
} from "../../examples/support/postgres-server.js";
import { connectDirectly } from "./fleet/server-faults.js";
import { commandLists } from "./model/commands.js";
import { compare } from "./model/compare.js";
import { createRealQueue } from "./model/real-queue.js";

const migrationsFolder = fileURLToPath(new URL("../../drizzle", import.meta.url));

/** `MODEL_RUNS=1000` for more of them, `MODEL_SEED` to repeat those of a failure. */
const { MODEL_RUNS = "80", MODEL_SEED = String(Date.now() % 2 ** 31) } = process.env;

let server: PostgresServer;
let client: pg.Client;
beforeAll(async () => {
  server = await startPostgresServer();
  client = await connectDirectly(server.url);
  await migrate(drizzle(client), { migrationsFolder });
});
afterAll(async () => {
  await client.end();
  await server.dispose();
});

test("the statements do to the tables what a model in memory says, whatever the order", async () => {
  const real = createRealQueue(client);
  const property = fc.asyncProperty(commandLists(60), (commands) => compare(real, commands));
  const { failed, counterexample, seed, errorInstance } = await fc.check(property, {
    numRuns: Number(MODEL_RUNS),
    seed: Number(MODEL_SEED),
  });
  const commands = (counterexample?.[0] ?? []).map((command) => JSON.stringify(command));
  const told = `MODEL_SEED=${seed} repeats it:\n${commands.join("\n")}\n${String(errorInstance)}`;
  expect(failed, told).toBe(false);
});
