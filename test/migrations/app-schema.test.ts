import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { queueExtrasSql } from "drizzle-queue/schema";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createEmptyDatabase, type TestDatabase } from "../support/database.js";
import { storageParameters, tableNamesIn } from "./catalog.js";
import {
  createFixtureApp,
  DRIZZLE_MAJORS,
  type FixtureApp,
  NOTHING_TO_GENERATE,
  NOTHING_TO_PUSH,
  removeSchemaDoor,
  typeErrors,
} from "./fixture-app.js";

const places = [
  {
    title: "re-exports the tables",
    schema: "./schema.ts",
    extras: queueExtrasSql(),
    tables: [
      "public.queue_controls",
      "public.queue_jobs",
      "public.queue_processed_keys",
      "public.queue_schedules",
      "public.queue_workers",
      "public.reports",
      "public.users",
    ],
  },
  {
    title: "places the tables in a schema of their own",
    schema: "./schema-elsewhere.ts",
    extras: queueExtrasSql({ schema: "queue", prefix: "" }),
    tables: [
      "public.reports",
      "queue.controls",
      "queue.jobs",
      "queue.processed_keys",
      "queue.schedules",
      "queue.workers",
    ],
  },
];

afterAll(removeSchemaDoor);

describe.each(DRIZZLE_MAJORS)("an app on drizzle-orm %s", (major) => {
  let app: FixtureApp;
  let database: TestDatabase;

  beforeEach(async () => {
    app = createFixtureApp(major);
    database = await createEmptyDatabase();
  });
  afterEach(async () => {
    app.remove();
    await database.drop();
  });

  describe.each(places)("that $title", ({ schema, extras, tables }) => {
    const kit = (...args: string[]) =>
      app.kit(args, { DATABASE_URL: database.url, APP_SCHEMA: schema });

    test("generates and migrates once, and then finds nothing to do", async () => {
      await kit("generate", "--name", "first");
      expect(app.migrations().size).toBe(1);
      expect(await kit("generate", "--name", "again")).toContain(NOTHING_TO_GENERATE);
      await kit("migrate");
      expect(await tableNamesIn(database.pool)).toEqual(tables);
      expect(await kit("push")).toContain(NOTHING_TO_PUSH);

      await kit("generate", "--custom", "--name", "queue_extras");
      const custom = [...app.migrations().keys()].find((path) => path.includes("queue_extras"));
      writeFileSync(join(app.folder, "drizzle", custom ?? "missing"), extras);
      await kit("migrate");
      const afterExtras = await storageParameters(database.pool);
      expect(afterExtras).not.toEqual([]);
      expect(await kit("generate", "--name", "after_extras")).toContain(NOTHING_TO_GENERATE);
      expect(await kit("push")).toContain(NOTHING_TO_PUSH);
      expect(await storageParameters(database.pool)).toEqual(afterExtras);
      expect(app.migrations().size).toBe(2);
    });

    test("pushes once, and then finds nothing to do", async () => {
      expect(await kit("push")).toContain("Changes applied");
      expect(await tableNamesIn(database.pool)).toEqual(tables);
      expect(await kit("push")).toContain(NOTHING_TO_PUSH);
    });
  });
});

// Predicates and checks with a column interpolated would be rebuilt: the majors write it differently.
test("an app that moves from drizzle-orm 0.45 to 1.0 has nothing to generate", async () => {
  const before = createFixtureApp("0.45");
  const after = createFixtureApp("1.0");
  try {
    await before.kit(["generate", "--name", "first"]);
    cpSync(join(before.folder, "drizzle"), join(after.folder, "drizzle"), { recursive: true });
    await after.kit(["up"]);
    expect(after.migrations().size).toBe(1);
    expect(await after.kit(["generate", "--name", "after_up"])).toContain(NOTHING_TO_GENERATE);
  } finally {
    before.remove();
    after.remove();
  }
});

describe.each(DRIZZLE_MAJORS)("the types of the tables on drizzle-orm %s", (major) => {
  let app: FixtureApp;

  beforeAll(() => {
    app = createFixtureApp(major);
  });
  afterAll(() => app.remove());

  test.each([true, false])("are exact with skipLibCheck %s", (skipLibCheck) => {
    const files = ["exact-types.ts", "schema.ts", "schema-elsewhere.ts", `relations-${major}.ts`];
    expect(typeErrors(app, files, { skipLibCheck })).toEqual([]);
  });

  test("are not accepted when they differ", () => {
    const wrong = `
      import { queueJobs } from "drizzle-queue/schema";
      import type { Same } from "./exact-types.js";
      export const proof: Same<typeof queueJobs.$inferSelect, { id: number }> = true;`;
    writeFileSync(join(app.folder, "wrong.ts"), wrong);
    expect(typeErrors(app, ["wrong.ts"], { skipLibCheck: true })).toEqual([
      expect.stringContaining("wrong.ts(4,"),
    ]);
  });
});
