import { readFileSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase } from "../support/database.js";
import {
  COMPILERS,
  type ConsumerProject,
  createConsumer,
  packTarball,
} from "./consumer-project.js";

const clean = { code: 0, output: "" };

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}
const manifest = (path: string): Manifest =>
  JSON.parse(readFileSync(new URL(`../../${path}`, import.meta.url), "utf8"));

let tarball: string;
beforeAll(() => {
  tarball = packTarball();
}, 120_000);
afterAll(() => rmSync(dirname(tarball), { recursive: true }));

test("one of the apps has the oldest zod that the package admits", () => {
  const { peerDependencies } = manifest("package.json");
  expect(peerDependencies?.["zod"]).toBe(
    `^${manifest("test/package/drizzle-0.45/package.json").dependencies?.["zod"]}`,
  );
});

describe.each(["drizzle-0.45", "drizzle-1.0"])(
  "an app with %s that installs the package",
  (app) => {
    let consumer: ConsumerProject;
    beforeAll(() => {
      consumer = createConsumer(app, tarball);
    }, 300_000);
    afterAll(() => consumer.remove());

    test.each(COMPILERS)("compiles with TypeScript %s", (compiler) => {
      expect(consumer.compile(compiler, "--noEmit")).toEqual(clean);
    });

    test("compiles as a bundler would resolve it", () => {
      const bundler = ["--module", "preserve", "--moduleResolution", "bundler"];
      expect(consumer.compile("6.0", "--noEmit", ...bundler)).toEqual(clean);
    });

    test("finds no error in the package's own declarations", () => {
      // Drizzle's own declarations have errors: they name drivers that an app need not have.
      const { output } = consumer.compile("7.0", "--noEmit", "--skipLibCheck", "false");
      const ours = output
        .split("\n")
        .filter((line) => line.includes("node_modules/drizzle-queue/"));
      expect(ours).toEqual([]);
    });

    test("runs: enqueues, works and stops", async () => {
      expect(consumer.compile("6.0")).toEqual(clean);
      const database = await createDatabase();
      try {
        const { code, output } = consumer.node(["out/app.js"], { DATABASE_URL: database.url });
        expect(code, output).toBe(0);
        expect(JSON.parse(output)).toEqual({
          refused: true,
          created: [true, false],
          sameJob: true,
          jobs: [{ name: "greet", status: "done", attempts: 1, result: { text: "Good day, Ada" } }],
          operated: ["ended", "done"],
          tested: "Good day, Ben",
        });
      } finally {
        await database.drop();
      }
    });

    test.each([
      "drizzle-queue",
      "drizzle-queue/schema",
      "drizzle-queue/worker",
      "drizzle-queue/admin",
      "drizzle-queue/testing",
    ])("%s exports what it always did, to require() as well", async (door) => {
      const list = `console.log(Object.keys(require(${JSON.stringify(door)})).sort().join("\\n"))`;
      const flags = ["--no-warnings", "--input-type=commonjs", "--eval"];
      const { code, output } = consumer.node([...flags, list]);
      expect(code, output).toBe(0);
      // One snapshot for both majors of Drizzle: an app must not notice which it has.
      await expect(output).toMatchFileSnapshot(`./__snapshots__/${door.replace("/", "-")}.txt`);
    });
  },
);
