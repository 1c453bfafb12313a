import { beforeAll, describe, expect, test } from "vitest";
import {
  announcedErrors,
  type CompileError,
  compileFixtures,
  DRIZZLE_MAJORS,
} from "./compile-fixtures.js";

const appSchemas = { "0.45": "schema-0.45.ts", "1.0": "relations-1.0.ts" };

describe.each(DRIZZLE_MAJORS)("with drizzle-orm %s", (major) => {
  let errors: ReadonlyMap<string, CompileError[]>;
  beforeAll(() => {
    errors = compileFixtures(major, ["accepted.ts", "refused.ts", appSchemas[major]]);
  }, 240_000);

  test("what is right compiles", () => {
    expect(errors.get("accepted.ts")).toEqual([]);
  });

  test.each(["refused.ts", appSchemas[major]])(
    "all that compiles not in %s is announced",
    (fixture) => {
      const announced = new Set(announcedErrors(fixture).map(({ announcedAt }) => announcedAt));
      expect(errors.get(fixture)?.filter(({ announcedAt }) => !announced.has(announcedAt))).toEqual(
        [],
      );
    },
  );

  test.each(
    ["refused.ts", appSchemas[major]].flatMap((fixture) =>
      announcedErrors(fixture).map(
        ({ announcedAt, code, message }) => [fixture, announcedAt, code, message] as const,
      ),
    ),
  )("%s, line %i is refused by %s: %s", (fixture, announcedAt, codes, message) => {
    const found = errors.get(fixture)?.filter((error) => error.announcedAt === announcedAt) ?? [];
    expect(found).toEqual([expect.objectContaining({ message: expect.stringContaining(message) })]);
    expect(codes.split("/")).toContain(found[0]?.code);
  });
});
