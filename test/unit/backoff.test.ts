import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MAX_DELAY_MS } from "../../src/errors.js";
import { DEFAULT_BACKOFF, exponential, fixed, retryDelayMs } from "../../src/registry/backoff.js";

describe("exponential", () => {
  test("doubles from its base up to its ceiling", () => {
    const backoff = exponential({ baseMs: 100, maxMs: 1_000, jitter: 0 });
    expect([1, 2, 3, 4, 5, 1_000_000].map(backoff)).toEqual([100, 200, 400, 800, 1_000, 1_000]);
  });

  test("stays within its jitter and below its ceiling, whatever the attempt", () => {
    const settings = fc.record({
      baseMs: fc.integer({ min: 0, max: 100_000 }),
      maxMs: fc.integer({ min: 100_000, max: MAX_DELAY_MS }),
      factor: fc.double({ min: 1, max: 100, noNaN: true }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(settings, fc.integer({ min: 1, max: 2_147_483_647 }), (options, attempt) => {
        const delay = exponential(options)(attempt);
        const whole = exponential({ ...options, jitter: 0 })(attempt);
        expect(delay).toBeLessThanOrEqual(options.maxMs);
        expect(delay).toBeLessThanOrEqual(whole);
        expect(delay).toBeGreaterThanOrEqual(whole * (1 - options.jitter) * 0.999_999);
      }),
    );
  });

  test("never gets shorter from one attempt to the next, up to its ceiling, and is never NaN", () => {
    const settings = fc.record({
      baseMs: fc.double({ min: 0, max: 100_000, noNaN: true }),
      maxMs: fc.double({ min: 100_000, max: MAX_DELAY_MS, noNaN: true }),
      factor: fc.double({ min: 1, max: 100, noNaN: true }),
    });
    fc.assert(
      fc.property(settings, fc.integer({ min: 1, max: 2_147_483_646 }), (options, attempt) => {
        const backoff = exponential({ ...options, jitter: 0 });
        expect(backoff(attempt + 1)).toBeGreaterThanOrEqual(backoff(attempt));
        expect(backoff(1)).toBe(options.baseMs);
        expect(backoff(Number.MAX_VALUE)).toBeLessThanOrEqual(options.maxMs);
      }),
    );
  });

  test("spreads jobs that errored together", () => {
    const backoff = exponential({ baseMs: 1_000, maxMs: 1_000 });
    expect(new Set(Array.from({ length: 50 }, () => backoff(1))).size).toBeGreaterThan(40);
  });

  test.each([
    [{ baseMs: -1, maxMs: 10 }, "baseMs"],
    [{ baseMs: 10, maxMs: 9 }, "maxMs"],
    [{ baseMs: 1, maxMs: Number.POSITIVE_INFINITY }, "maxMs"],
    [{ baseMs: Number.NaN, maxMs: 10 }, "baseMs"],
    [{ baseMs: 1, maxMs: 10, factor: 0.5 }, "factor"],
    [{ baseMs: 1, maxMs: 10, jitter: 2 }, "jitter"],
    [{ baseMs: 1, maxMs: 10, base: 2 }, '"base"'],
  ])("refuses %j by name", (options, named) => {
    expect(() => exponential(options)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(named) }),
    );
  });
});

describe("fixed", () => {
  test("gives the same delay at each attempt", () => {
    expect([1, 2, 99].map(fixed({ delayMs: 250, jitter: 0 }))).toEqual([250, 250, 250]);
  });

  test("stays within its jitter", () => {
    const settings = fc.record({
      delayMs: fc.double({ min: 0, max: MAX_DELAY_MS, noNaN: true }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(settings, fc.integer({ min: 1 }), (options, attempt) => {
        const delay = fixed(options)(attempt);
        expect(delay).toBeLessThanOrEqual(options.delayMs);
        expect(delay).toBeGreaterThanOrEqual(options.delayMs * (1 - options.jitter) * 0.999_999);
      }),
    );
  });

  test("refuses a negative delay", () => {
    expect(() => fixed({ delayMs: -1 })).toThrow(/delayMs/);
  });
});

describe("retryDelayMs", () => {
  test.each([
    [-5, 0],
    [Number.POSITIVE_INFINITY, MAX_DELAY_MS],
    [1e300, MAX_DELAY_MS],
    [12.5, 12.5],
  ])("clamps %d to %d", (given, expected) => {
    expect(retryDelayMs(() => given, 1)).toBe(expected);
  });

  test("takes the default's answer without a backoff", () => {
    expect(retryDelayMs(undefined, 100)).toBeGreaterThanOrEqual(2_700_000);
  });

  test.each([
    ["gives NaN", () => Number.NaN],
    ["gives no number", () => "soon" as unknown as number],
    [
      "throws",
      () => {
        throw new Error("no");
      },
    ],
  ])("takes the default's answer when a backoff %s", (_, backoff) => {
    const delay = retryDelayMs(backoff, 3);
    expect(delay).toBeLessThanOrEqual(20_000);
    expect(delay).toBeGreaterThanOrEqual(15_000);
  });

  test("is a delay that can be stored, whatever the backoff does", () => {
    const answers = fc.oneof(fc.double(), fc.anything());
    fc.assert(
      fc.property(answers, fc.boolean(), fc.integer({ min: 1 }), (answer, throws, attempt) => {
        const delay = retryDelayMs(() => {
          if (throws) throw answer as Error;
          return answer as number;
        }, attempt);
        expect(delay).toBeGreaterThanOrEqual(0);
        expect(delay).toBeLessThanOrEqual(MAX_DELAY_MS);
      }),
    );
  });

  test("the default starts at five seconds and ends at an hour", () => {
    expect(DEFAULT_BACKOFF(1)).toBeLessThanOrEqual(5_000);
    expect(DEFAULT_BACKOFF(100)).toBeLessThanOrEqual(3_600_000);
    expect(DEFAULT_BACKOFF(100)).toBeGreaterThanOrEqual(2_700_000);
  });
});
