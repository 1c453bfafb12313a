import { fileURLToPath } from "node:url";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";

const source = (path: string) => fileURLToPath(new URL(`src/${path}`, import.meta.url));

/** A room of test/: its folder is its name. */
function room(name: string, limits: { testTimeout: number }): TestProjectInlineConfiguration {
  return {
    extends: true,
    test: { name, include: [`test/${name}/**/*.test.ts`], hookTimeout: 60_000, ...limits },
  };
}

const types: TestProjectInlineConfiguration = {
  extends: true,
  test: {
    name: "types",
    include: [],
    typecheck: {
      enabled: true,
      only: true,
      include: ["test/types/**/*.test-d.ts"],
      tsconfig: "test/types/tsconfig.json",
    },
  },
};

export default defineConfig({
  resolve: {
    // Tests import through the doors, as an app does, without a build.
    alias: [
      { find: /^drizzle-queue$/, replacement: source("index.ts") },
      { find: /^drizzle-queue\/schema$/, replacement: source("schema/index.ts") },
      { find: /^drizzle-queue\/worker$/, replacement: source("worker/index.ts") },
      { find: /^drizzle-queue\/admin$/, replacement: source("admin/index.ts") },
      { find: /^drizzle-queue\/scheduler$/, replacement: source("scheduler/index.ts") },
      { find: /^drizzle-queue\/testing$/, replacement: source("testing/index.ts") },
    ],
  },
  test: {
    globalSetup: "test/support/global-setup.ts",
    // A test that needs a second try has found a fault.
    retry: 0,
    // The server of the run and the processes that tests start want a share of the machine too.
    maxWorkers: 2,
    pool: "forks",
    coverage: { provider: "v8", include: ["src/**"] },
    projects: [
      room("unit", { testTimeout: 10_000 }),
      room("queries", { testTimeout: 30_000 }),
      room("worker", { testTimeout: 30_000 }),
      room("admin", { testTimeout: 30_000 }),
      room("scheduler", { testTimeout: 30_000 }),
      room("testing", { testTimeout: 30_000 }),
      room("guarantees", { testTimeout: 60_000 }),
      room("migrations", { testTimeout: 120_000 }),
      types,
      room("compile-errors", { testTimeout: 30_000 }),
      room("crash", { testTimeout: 600_000 }),
      room("regression", { testTimeout: 60_000 }),
      room("docs", { testTimeout: 120_000 }),
      room("examples", { testTimeout: 120_000 }),
      room("package", { testTimeout: 300_000 }),
    ],
  },
});
