/**
 * Runs the rooms that need a database on every PostgreSQL major, and on the oldest and the newest Node.
 *
 * `npm run test:matrix` runs all; `npm run test:matrix -- postgres-14 node-24 --project guarantees`
 * runs two places of the matrix and hands the rest to vitest.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { installFixture } from "../test/support/matrix/install-fixture.js";
import { POSTGRES_MAJORS } from "../test/support/postgres-server.js";

interface Place {
  readonly name: string;
  /** The Node that runs vitest and all that the tests start. */
  readonly node: () => string;
  readonly env: Readonly<Record<string, string>>;
}

const projectFolder = fileURLToPath(new URL("..", import.meta.url));

const places: readonly Place[] = [
  ...POSTGRES_MAJORS.map((major) => ({
    name: `postgres-${major}`,
    node: () => process.execPath,
    env: { PG_MAJOR: String(major) },
  })),
  ...["node-20.19", "node-24"].map((name) => ({ name, node: () => nodeOf(name), env: {} })),
];

const databaseRooms = ["queries", "worker", "guarantees", "migrations"];

/** The Node that npm carries; the fixtures name that of Linux on x64. */
function nodeOf(place: string): string {
  const name = `node-${process.platform}-${process.arch}`;
  return join(installFixture(`test/support/matrix/${place}`), "node_modules", name, "bin/node");
}

/** Runs vitest in one place of the matrix and says whether all was well. */
function runIn(place: Place, vitestArgs: readonly string[]): boolean {
  console.log(`\n== ${place.name} ==`);
  const vitest = join(projectFolder, "node_modules/vitest/vitest.mjs");
  const run = spawnSync(place.node(), [vitest, "run", ...vitestArgs], {
    cwd: projectFolder,
    stdio: "inherit",
    env: { ...process.env, ...place.env },
  });
  return run.status === 0;
}

const given = process.argv.slice(2);
const chosen = places.filter(({ name }) => given.includes(name));
const others = given.filter((argument) => !places.some(({ name }) => name === argument));
const vitestArgs = others.some((argument) => argument.startsWith("--project"))
  ? others
  : [...databaseRooms.flatMap((room) => ["--project", room]), ...others];

const failed = (chosen.length > 0 ? chosen : places).filter((place) => !runIn(place, vitestArgs));
if (failed.length > 0) {
  console.error(`\nFailed on: ${failed.map(({ name }) => name).join(", ")}.`);
  process.exitCode = 1;
}
