import { describe, expect, test } from "vitest";
import { SnoozeJob } from "../../src/errors.js";

describe("SnoozeJob", () => {
  test.each([0, 0.5, 315_576_000_000])("takes %d ms", (delayMs) => {
    expect(new SnoozeJob({ delayMs }).delayMs).toBe(delayMs);
  });

  test.each<[unknown, string]>([
    [undefined, "undefined"],
    [null, "undefined"],
    [5, "undefined"],
    [{ delayMs: "5" }, "string"],
    [{ delayMs: [5] }, "object"],
    [{ delayMs: null }, "object"],
    [{ delayMs: Number.NaN }, "NaN"],
    [{ delayMs: -1 }, "-1"],
    [{ delayMs: 315_576_000_001 }, "315576000001"],
  ])("refuses %j, got %s", (options, got) => {
    expect(() => new SnoozeJob(options as never)).toThrow(
      expect.objectContaining({
        code: "INVALID_OPTION",
        message: expect.stringMatching(new RegExp(`got ${got}\\.$`)),
      }),
    );
  });
});
