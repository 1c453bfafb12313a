/**
 * Runs the rooms that need a database on every PostgreSQL major the project promises.
 *
 * `npm run test:matrix` runs all; `npm run test:matrix -- 14 18 --project guarantees`
 * runs two majors and hands the rest to vitest.
 */
import { spawnSync } from "node:child_process";
import process from "node:process";
import { POSTGRES_MAJORS } from "../test/support/postgres-server.js";

const databaseRooms = ["queries", "worker", "guarantees", "migrations"];

const given = process.argv.slice(2);
const majors = POSTGRES_MAJORS.filter((major) => given.includes(String(major)));
const vitestArgs = given.filter((argument) => !/^\d+$/.test(argument));
const args =
  vitestArgs.length > 0 ? vitestArgs : databaseRooms.flatMap((room) => ["--project", room]);

const failed: number[] = [];
for (const major of majors.length > 0 ? majors : POSTGRES_MAJORS) {
  console.log(`\n== PostgreSQL ${major} ==`);
  const run = spawnSync("npx", ["vitest", "run", ...args], {
    stdio: "inherit",
    env: { ...process.env, PG_MAJOR: String(major) },
    shell: process.platform === "win32",
  });
  if (run.status !== 0) failed.push(major);
}
if (failed.length > 0) {
  console.error(`\nFailed on PostgreSQL ${failed.join(", ")}.`);
  process.exitCode = 1;
}
