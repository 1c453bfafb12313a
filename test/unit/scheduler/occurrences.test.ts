import { Cron } from "croner";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { MAX_MISSED, type Occurrences, occurrencesOf } from "../../../src/scheduler/occurrences.js";

const DAY_MS = 86_400_000;
const at = (iso: string): number => Date.parse(iso);

const dueOf = (cron: string, zone = "UTC"): Occurrences =>
  occurrencesOf("schedules.nightly", cron, zone);

/** All that are due after a time, up to another. */
function allOf(occurrences: Occurrences, fromMs: number, untilMs: number): number[] {
  const all: number[] = [];
  let due = occurrences.nextAfter(fromMs);
  while (due !== undefined && due <= untilMs) {
    all.push(due);
    due = occurrences.nextAfter(due);
  }
  return all;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** What a clock in the zone shows, as if it were UTC. */
function reading(zone: string, ms: number): number {
  const format =
    formats.get(zone) ??
    new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
      hourCycle: "h23",
    });
  formats.set(zone, format);
  const part = Object.fromEntries(format.formatToParts(ms).map((p) => [p.type, Number(p.value)]));
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = part;
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** Day and time in the zone, and what it is ahead of UTC in hours: `25 02:00:00 +1`. */
function shown(zone: string, ms: number): string {
  const ahead = (reading(zone, ms) - ms) / 3_600_000;
  const text = new Date(reading(zone, ms)).toISOString();
  return `${text.slice(8, 10)} ${text.slice(11, 19)} ${ahead < 0 ? "" : "+"}${ahead}`;
}

describe("occurrencesOf, where the clock is changed", () => {
  const forward = {
    Berlin: ["Europe/Berlin", "2026-03-29T00:00:00Z"],
    "New York": ["America/New_York", "2026-03-08T06:00:00Z"],
    "Lord Howe": ["Australia/Lord_Howe", "2026-10-03T14:30:00Z"],
  } as const;
  const back = {
    Berlin: ["Europe/Berlin", "2026-10-24T23:30:00Z"],
    "New York": ["America/New_York", "2026-11-01T04:30:00Z"],
    "Lord Howe": ["Australia/Lord_Howe", "2026-04-04T14:00:00Z"],
  } as const;

  test.each([
    ["Berlin", "0 * * * *", 2, ["29 03:00:00 +2", "29 04:00:00 +2"]],
    ["Berlin", "*/30 * * * *", 1, ["29 01:30:00 +1", "29 03:00:00 +2"]],
    ["Berlin", "30 2 * * *", 48, ["29 03:00:00 +2", "30 02:30:00 +2"]],
    ["Berlin", "0,30 2,4 * * *", 20, ["29 03:00:00 +2", "29 04:00:00 +2", "29 04:30:00 +2"]],
    ["Berlin", "*/15 2 * * *", 20, []],
    ["Berlin", "30 1 * * *", 20, ["29 01:30:00 +1"]],
    ["Berlin", "0 3 * * *", 24, ["29 03:00:00 +2"]],
    ["Berlin", "0 30 2 29 3 * 2026", 240, ["29 03:00:00 +2"]],
    ["New York", "0 * * * *", 2, ["08 03:00:00 -4", "08 04:00:00 -4"]],
    ["New York", "30 2 * * *", 48, ["08 03:00:00 -4", "09 02:30:00 -4"]],
    ["New York", "30 1 * * *", 20, ["08 01:30:00 -5"]],
    ["Lord Howe", "*/15 * * * *", 1, ["04 01:15", "04 01:30", "04 01:45", "04 02:30"]],
    ["Lord Howe", "10 2 * * *", 24, ["04 02:30:00 +11"]],
    ["Lord Howe", "30 2 * * *", 24, ["04 02:30:00 +11"]],
    ["Lord Howe", "0 * * * *", 2, ["04 03:00:00 +11"]],
  ] as const)("%s, forward: %s within %d h", (place, cron, hours, expected) => {
    const [zone, from] = forward[place];
    const due = allOf(dueOf(cron, zone), at(from), at(from) + hours * 3_600_000);
    expect(due.map((ms) => shown(zone, ms))).toEqual(
      expected.map((text) => expect.stringContaining(text)),
    );
  });

  test.each([
    ["Berlin", "0 * * * *", 2, ["25 02:00:00 +2", "25 02:00:00 +1"]],
    ["Berlin", "*/30 * * * *", 2, ["+2", "25 02:30:00 +2", "25 02:00:00 +1", "25 02:30:00 +1"]],
    ["Berlin", "30 2 * * *", 48, ["25 02:30:00 +2", "26 02:30:00 +1"]],
    ["Berlin", "0,30 2 * * *", 24, ["25 02:00:00 +2", "25 02:30:00 +2"]],
    ["Berlin", "0 0 0-2/2 25 10 * 2026", 99, ["25 02:00:00 +2", "25 02:00:00 +1"]],
    ["New York", "0 * * * *", 2, ["01 01:00:00 -4", "01 01:00:00 -5"]],
    ["New York", "30 1 * * *", 48, ["01 01:30:00 -4", "02 01:30:00 -5"]],
    ["New York", "30 2 * * *", 24, ["01 02:30:00 -5"]],
    ["Lord Howe", "*/20 * * * *", 2, ["01:20", "01:40:00 +11", "01:40:00 +10.5", "02:00", "02:20"]],
    ["Lord Howe", "45 1 * * *", 24, ["05 01:45:00 +11"]],
    ["Lord Howe", "30 1 * * *", 24, ["05 01:30:00 +11"]],
    ["Lord Howe", "0 2 * * *", 24, ["05 02:00:00 +10.5"]],
  ] as const)("%s, back: %s within %d h", (place, cron, hours, expected) => {
    const [zone, from] = back[place];
    const due = allOf(dueOf(cron, zone), at(from), at(from) + hours * 3_600_000);
    expect(due.map((ms) => shown(zone, ms))).toEqual(
      expected.map((text) => expect.stringContaining(text)),
    );
  });

  test.each([...Object.values(forward), ...Object.values(back)])(
    "every 15 seconds stay so: %s",
    (...[zone, from]) => {
      const quarters = dueOf("*/15 * * * * *", zone);
      const due = allOf(quarters, at(from), at(from) + 3 * 3_600_000);
      expect(due).toEqual(Array.from({ length: 720 }, (_, i) => at(from) + (i + 1) * 15_000));
      expect(quarters.latest(at(from), at(from) + 3 * 3_600_000 + 14_999)).toEqual({
        dueMs: at(from) + 3 * 3_600_000,
        missed: MAX_MISSED,
      });
    },
  );

  test.each([
    ["Asia/Kolkata", "0 * * * *", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"],
    ["Asia/Kolkata", "30 2 * * *", "2026-03-29T01:00:00Z", "2026-03-29T21:00:00Z"],
    ["UTC", "30 2 * * *", "2026-03-29T01:00:00Z", "2026-03-29T02:30:00Z"],
    ["UTC", "30 1 * * *", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"],
  ])("%s has no change: %s", (zone, cron, from, expected) => {
    expect(dueOf(cron, zone).nextAfter(at(from))).toBe(at(expected));
  });

  test.each([
    ["Europe/Berlin", "30 2 * * *", "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"],
    ["Europe/Berlin", "0-59 2 * * *", "2026-10-25T01:10:00Z", "2026-10-26T01:00:00Z"],
    ["Europe/Berlin", "0-59 2-3 * * *", "2026-10-25T01:10:00Z", "2026-10-25T02:00:00Z"],
    ["Australia/Lord_Howe", "45 1 * * *", "2026-04-04T15:10:00Z", "2026-04-05T15:15:00Z"],
  ])("asked within the repeated time, %s does not repeat %s", (zone, cron, from, expected) => {
    // Each asked anew: nothing that was learned before the change may be needed.
    expect(dueOf(cron, zone).nextAfter(at(from))).toBe(at(expected));
    expect(dueOf(cron, zone).latest(at(from), at(expected) - 1)).toBeUndefined();
  });

  test("goes from second to second over a lost hour", () => {
    const seconds = dueOf("* * * * * *", "Europe/Berlin");
    expect(seconds.nextAfter(at("2026-03-29T00:59:59Z"))).toBe(at("2026-03-29T01:00:00Z"));
  });
});

describe("nextAfter", () => {
  test.each([
    ["* * * * * *", 0, 1_000],
    ["* * * * * *", 999, 1_000],
    ["* * * * * *", 1_000, 2_000],
    ["* * * * * *", 1_000.5, 2_000],
    ["* * * * * *", 1_500, 2_000],
    ["* * * * * *", -1, 0],
    ["* * * * *", 59_999, 60_000],
    ["* * * * *", 60_000, 120_000],
  ])("of %s after %d is %d", (cron, after, expected) => {
    expect(dueOf(cron).nextAfter(after)).toBe(expected);
  });

  test.each([
    ["0 0 29 2 *", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"],
    ["0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"],
    ["0 0 29 2 +MON", "2024-02-29T00:00:00Z", "2044-02-29T00:00:00Z"],
    ["0 12 L * *", "2026-02-01T00:00:00Z", "2026-02-28T12:00:00Z"],
    ["0 12 LW * *", "2026-05-01T00:00:00Z", "2026-05-29T12:00:00Z"],
    ["0 12 * * FRI#2", "2026-05-01T12:00:00Z", "2026-05-08T12:00:00Z"],
    ["0 0 13 * FRI", "2026-05-09T00:00:00Z", "2026-05-13T00:00:00Z"],
    ["0 0 0 1 1 * 2030,2090", "2031-01-01T00:00:00Z", "2090-01-01T00:00:00Z"],
    ["@weekly", "2026-05-01T00:00:00Z", "2026-05-03T00:00:00Z"],
    [" @Daily ", "2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z"],
    ["  5   4\t*  * * ", "2026-05-01T00:00:00Z", "2026-05-01T04:05:00Z"],
  ])("of %s after %s is %s", (cron, after, expected) => {
    expect(dueOf(cron).nextAfter(at(after))).toBe(at(expected));
  });

  test("is undefined after the last", () => {
    const once = dueOf("0 0 12 1 1 * 2099", "Europe/Berlin");
    expect(once.nextAfter(at("2099-01-01T10:59:59.999Z"))).toBe(at("2099-01-01T11:00:00Z"));
    expect(once.nextAfter(at("2099-01-01T11:00:00Z"))).toBeUndefined();
    expect(once.latest(0, at("2199-01-01T00:00:00Z"))).toEqual({
      dueMs: at("2099-01-01T11:00:00Z"),
      missed: 0,
    });
  });
});

describe("latest", () => {
  test("leaves out the start of its range and takes in the end", () => {
    const hourly = dueOf("0 * * * *");
    const [ten, noon] = [at("2026-05-01T10:00:00Z"), at("2026-05-01T12:00:00Z")];
    expect(hourly.latest(ten, noon)).toEqual({ dueMs: noon, missed: 1 });
    expect(hourly.latest(ten - 1, noon)).toEqual({ dueMs: noon, missed: 2 });
    expect(hourly.latest(ten, noon - 1)).toEqual({ dueMs: noon - 3_600_000, missed: 0 });
    expect(hourly.latest(ten, noon - 3_600_001)).toBeUndefined();
    expect(hourly.latest(noon, noon)).toBeUndefined();
    expect(hourly.latest(noon, ten)).toBeUndefined();
  });

  const now = at("2026-10-26T12:00:00.500Z");
  test.each([
    ["* * * * * *", "Europe/Berlin", 30, "2026-10-26T12:00:00Z", MAX_MISSED],
    ["* * * * * *", "UTC", 3_653, "2026-10-26T12:00:00Z", MAX_MISSED],
    ["0 0 1 1 *", "Europe/Berlin", 3_653, "2025-12-31T23:00:00Z", 9],
    ["0 0 29 2 *", "UTC", 36_525, "2024-02-29T00:00:00Z", 24],
    ["* * 1 1 *", "UTC", 3_653, "2026-01-01T23:59:00Z", MAX_MISSED],
    ["*/20 * * * * *", "UTC", 101 / 4_320, "2026-10-26T12:00:00Z", MAX_MISSED],
    ["*/20 * * * * *", "UTC", 100 / 4_320, "2026-10-26T12:00:00Z", 99],
  ])("of %s in %s after %d days of silence", (...[cron, zone, days, ...expected]) => {
    const [dueAt, missed] = expected;
    const occurrences = dueOf(cron, zone);
    // Gone through one by one, the first would take minutes.
    expect(occurrences.latest(now - days * DAY_MS, now)).toEqual({ dueMs: at(dueAt), missed });
  });
});

const refusal = (text: string) =>
  expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(text) });

describe("occurrencesOf refuses", () => {
  test.each([
    [5, "schedules.nightly.cron must be a string, got 5."],
    [undefined, "schedules.nightly.cron must be a string, got undefined."],
    [new Date(), "schedules.nightly.cron must be a string, got object."],
    ["", "schedules.nightly.cron must be 1 to 512 bytes"],
    ["* * * *", "schedules.nightly.cron must be five fields"],
    ["* * * * * * * *", "got 8 fields."],
    ["2099-01-01T00:00:00", "enqueue a job with runAt"],
    ["2099-01-01 00:00:00", "enqueue a job with runAt"],
    ["@often", "schedules.nightly.cron must be a cron pattern"],
    ["@reboot", "@reboot is not supported"],
    ["@daily * * * *", "illegal characters"],
    ["60 * * * *", "which says: Invalid value for minute: 60"],
    ["0 12:30 * * *", "enqueue a job with runAt"],
    ["0 0 * * MON-", "schedules.nightly.cron must be a cron pattern"],
  ])("the pattern %j", (cron, text) => {
    expect(() => occurrencesOf("schedules.nightly", cron, "UTC")).toThrow(refusal(text));
  });

  test("what croner refuses with its error as the cause", () => {
    expect(() => dueOf("60 * * * *")).toThrow(
      expect.objectContaining({ cause: expect.any(RangeError) }),
    );
  });

  test.each([
    [undefined, "schedules.nightly.timeZone must be a string"],
    ["", "schedules.nightly.timeZone must be 1 to 64 bytes"],
    ["Europe/Atlantis", "schedules.nightly.timeZone must be the IANA name"],
    ["+01:00", "schedules.nightly.timeZone must be the IANA name"],
    ["local", "schedules.nightly.timeZone must be the IANA name"],
  ])("the zone %j", (zone, text) => {
    expect(() => occurrencesOf("schedules.nightly", "* * * * *", zone)).toThrow(refusal(text));
  });

  test.each(["0 0 30 2 *", "0 0 31 4,6,9,11 *", "* * * 30 2 * 2026-9999", "0 0 0 29 2 * 2027"])(
    "%s, which is never due",
    (cron) => {
      expect(() => dueOf(cron, "Europe/Berlin")).toThrow(
        refusal("is never due: its dates do not exist"),
      );
    },
  );
});

test("starts no timer", () => {
  vi.useFakeTimers();
  try {
    dueOf("* * * * * *").nextAfter(0);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

/** A pattern without names and modifiers. */
type Fields = readonly [minute: string, hour: string, day: string, month: string, weekday: string];

function field(min: number, max: number): fc.Arbitrary<string> {
  const value = fc.integer({ min, max });
  const range = fc.tuple(value, value).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`);
  return fc.oneof(
    { weight: 2, arbitrary: fc.constant("*") },
    { weight: 3, arbitrary: value.map(String) },
    fc.integer({ min: 2, max: 20 }).map((step) => `*/${Math.min(step, max)}`),
    fc.array(value, { minLength: 2, maxLength: 3 }).map((values) => values.join(",")),
    range,
    range.map((text) => `${text}/2`),
  );
}
const mostly = (text: string, other: fc.Arbitrary<string>) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(text) }, other);
const anyFields: fc.Arbitrary<Fields> = fc.tuple(
  field(0, 59),
  fc.oneof(field(0, 3), field(0, 23)),
  mostly("*", field(1, 28)),
  mostly("*", field(1, 12)),
  mostly("*", field(0, 6)),
);

/** Tells whether a field takes a value, by the textbook. */
function takes(text: string, value: number, min: number, max: number): boolean {
  return text.split(",").some((item) => {
    const [range = "", step = "1"] = item.split("/");
    const [low, high = low] = range === "*" ? [min, max] : range.split("-").map(Number);
    return (
      value >= Number(low) && value <= Number(high) && (value - Number(low)) % Number(step) === 0
    );
  });
}

function matches([minute, hour, day, month, weekday]: Fields, wall: number): boolean {
  const date = new Date(wall);
  const byDay = takes(day, date.getUTCDate(), 1, 31);
  const byWeekday = takes(weekday, date.getUTCDay(), 0, 6);
  return (
    takes(minute, date.getUTCMinutes(), 0, 59) &&
    takes(hour, date.getUTCHours(), 0, 23) &&
    takes(month, date.getUTCMonth() + 1, 1, 12) &&
    (day === "*" || weekday === "*" ? byDay && byWeekday : byDay || byWeekday)
  );
}

/** Four days of a zone by its clock: each minute, and the readings that it skips or repeats there. */
function walkOf(zone: string, fromMs: number) {
  const seen = new Set<number>();
  return Array.from({ length: 4 * 1_440 }, (_, minute) => {
    const ms = fromMs + minute * 60_000;
    const wall = reading(zone, ms);
    const repeated = seen.has(wall);
    seen.add(wall);
    const skipped: number[] = [];
    for (let lost = reading(zone, ms - 60_000) + 60_000; lost < wall; lost += 60_000)
      skipped.push(lost);
    return { ms, wall, repeated, skipped };
  });
}

const walks = (
  [
    ["Europe/Berlin", "2026-03-27"],
    ["Europe/Berlin", "2026-10-23"],
    ["America/New_York", "2026-03-06"],
    ["America/New_York", "2026-10-30"],
    ["Australia/Lord_Howe", "2026-04-03"],
    ["Australia/Lord_Howe", "2026-10-02"],
    ["Antarctica/Troll", "2026-10-23"],
    ["Africa/Cairo", "2026-04-22"],
    ["Asia/Kolkata", "2026-02-26"],
    ["UTC", "2025-12-30"],
  ] as const
).map(([zone, day]) => ({ zone, walk: walkOf(zone, at(`${day}T00:00:00Z`)) }));

// croner goes through a lost hour second by second, and most of these ranges have one.
describe("any pattern", { timeout: 60_000 }, () => {
  /** Due by the walk: each match, but for fixed times the first of two and the lost at the jump. */
  function dueByWalk(fields: Fields, walk: ReturnType<typeof walkOf>): number[] {
    const isFixed = !/[*/]/.test(`${fields[0]}${fields[1]}`);
    return walk
      .filter(({ wall, repeated, skipped }) =>
        isFixed
          ? (!repeated && matches(fields, wall)) || skipped.some((lost) => matches(fields, lost))
          : matches(fields, wall),
      )
      .map(({ ms }) => ms);
  }

  test("is due as by a walk over every minute, next and latest", () => {
    const share = fc.integer({ min: 0, max: 4 * DAY_MS - 60_000 });
    fc.assert(
      fc.property(fc.constantFrom(...walks), anyFields, share, share, ({ zone, walk }, ...rest) => {
        const [fields, a, b] = rest;
        const occurrences = dueOf(fields.join(" "), zone);
        const start = walk[0]?.ms ?? 0;
        const [from, until] = [start + Math.min(a, b), start + Math.max(a, b)];
        const expected = dueByWalk(fields, walk).filter((ms) => ms > from);
        const inRange = expected.filter((ms) => ms <= until);
        const end = start + 4 * DAY_MS - 1;
        expect(allOf(occurrences, from, end)).toEqual(expected);
        expect(occurrences.latest(from, until)).toEqual(
          inRange.length === 0
            ? undefined
            : { dueMs: inRange.at(-1), missed: Math.min(MAX_MISSED, inRange.length - 1) },
        );
      }),
      { numRuns: 60 },
    );
  });

  test("is due as croner says, with seconds, in any month; and next agrees with latest", () => {
    const zones = fc.constantFrom("Europe/Berlin", "America/New_York", "Australia/Lord_Howe");
    const time = fc.integer({ min: at("1990-01-01T00:00:00Z"), max: at("2037-01-01T00:00:00Z") });
    const silence = fc.integer({ min: 0, max: 400 * DAY_MS });
    fc.assert(
      fc.property(zones, field(0, 59), anyFields, time, silence, (zone, second, ...rest) => {
        const [fields, until, silentMs] = rest;
        const cron = `${second} ${fields.join(" ")}`;
        const occurrences = dueOf(cron, zone);
        const croner = new Cron(cron, {
          timezone: zone,
          paused: true,
          fixedTimeRule: "no-wildcard",
        });
        const next = occurrences.nextAfter(until);
        expect(next).toBe(croner.nextRun(new Date(until))?.getTime());
        const since = until - silentMs;
        const latest = occurrences.latest(since, until)?.dueMs;
        // None in the range: the first after its start is the one after its end.
        expect(occurrences.nextAfter(latest === undefined ? since : latest - 1)).toBe(
          latest ?? next,
        );
        expect(occurrences.nextAfter(latest ?? since)).toBe(next);
        expect(latest === undefined || (latest > since && latest <= until)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });
});
