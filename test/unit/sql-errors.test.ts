import { describe, expect, test } from "vitest";
import { isAnswered, sqlState } from "../../src/queries/sql-errors.js";

describe("the SQLSTATE of an error", () => {
  test("is found behind Drizzle's own error", () => {
    const driver = Object.assign(new Error("deadlock detected"), { code: "40P01" });
    expect(sqlState(new Error("Failed query", { cause: driver }))).toBe("40P01");
  });

  test.each(["EPIPE", "ECONNRESET", "CONNECTION_CLOSED"])(
    "is not %s, of a connection that broke",
    (code) => {
      const error = Object.assign(new Error("broken"), { code });
      expect(sqlState(error)).toBeUndefined();
      expect(isAnswered(error)).toBe(false);
    },
  );

  test("of a server that went away is no answer about the statement", () => {
    expect(isAnswered(Object.assign(new Error("terminated"), { code: "57P01" }))).toBe(false);
    expect(isAnswered(Object.assign(new Error("too late"), { code: "57014" }))).toBe(true);
  });
});
