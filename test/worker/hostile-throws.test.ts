import { runInNewContext } from "node:vm";
import { createQueue, defineJob, defineJobs, fixed } from "drizzle-queue";
import { createWorker } from "drizzle-queue/worker";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { openRoom, type Room } from "./room.js";

const refuses = () => {
  throw new Error("do not look at me");
};
const hostileProxy = () =>
  new Proxy(
    {},
    {
      get: refuses,
      has: refuses,
      ownKeys: refuses,
      getPrototypeOf: refuses,
      getOwnPropertyDescriptor: refuses,
    },
  );
const withProperties = (properties: PropertyDescriptorMap) =>
  Object.defineProperties(new Error("plain"), properties);
const circular = () => {
  const error: Error & { self?: unknown } = new Error("round and round", { cause: {} });
  error.self = error;
  error.cause = error;
  return error;
};
const fiveMegabytes = "x".repeat(5_000_000);

/** What a handler throws, and what the row then says. */
const cases: Record<string, { readonly thrown: () => unknown; readonly says: RegExp }> = {
  undefined: { thrown: () => undefined, says: /undefined was thrown/ },
  null: { thrown: () => null, says: /null/ },
  zero: { thrown: () => 0, says: /number was thrown: 0/ },
  "empty text": { thrown: () => "", says: /string was thrown/ },
  text: { thrown: () => "just text", says: /just text/ },
  bigint: { thrown: () => 12n, says: /12/ },
  symbol: { thrown: () => Symbol("sign"), says: /Symbol\(sign\)/ },
  function: { thrown: () => () => 1, says: /function was thrown/ },
  "proxy that throws": { thrown: hostileProxy, says: /cannot be read/ },
  "object without prototype": { thrown: () => Object.create(null), says: /cannot be read/ },
  "circular error": { thrown: circular, says: /round and round/ },
  "throwing getters": {
    thrown: () =>
      withProperties({
        message: { get: refuses },
        name: { get: refuses },
        stack: { get: refuses },
        code: { get: refuses },
        cause: { get: refuses },
      }),
    says: /Error/,
  },
  "a throwing toString": { thrown: () => ({ toString: refuses }), says: /cannot be read/ },
  "frozen error": { thrown: () => Object.freeze(new Error("cold")), says: /cold/ },
  "error of another realm": {
    thrown: () => runInNewContext("new TypeError('from afar')"),
    says: /TypeError: from afar/,
  },
  "rejected thenable": {
    // oxlint-disable-next-line unicorn/no-thenable -- That somebody awaits it by accident is the case.
    thrown: () => ({ then: (_: unknown, reject: (e: Error) => void) => reject(new Error("late")) }),
    says: /object was thrown/,
  },
  "NUL in message": { thrown: () => new Error("a\0b"), says: /a\uFFFDb/ },
  "NUL everywhere": {
    thrown: () =>
      withProperties({
        message: { value: "m\0" },
        name: { value: "n\0" },
        stack: { value: "s\0" },
        code: { value: "c\0" },
      }),
    says: /c\uFFFD: m\uFFFD/,
  },
  "lone surrogates": { thrown: () => new Error("a\uD800b\uDC00"), says: /a\uFFFDb\uFFFD/ },
  "a surrogate pair cut in two": {
    thrown: () => new Error(`${"x".repeat(1_999)}\u{1F600}`),
    says: /^Error: x{400}/,
  },
  "control characters": { thrown: () => new Error("\u0001\u001f\u007f\uFFFF"), says: /^Error: ./ },
  "5 MB message": { thrown: () => new Error(fiveMegabytes), says: /x{400}/ },
  "5 MB text": { thrown: () => fiveMegabytes, says: /x{300}/ },
  "5 MB stack and cause": {
    thrown: () =>
      withProperties({
        stack: { value: fiveMegabytes },
        cause: { value: new Error(fiveMegabytes) },
      }),
    says: /plain/,
  },
  "AggregateError with NUL": {
    thrown: () => new AggregateError([new Error("\0"), null], "many\0"),
    says: /many\uFFFD/,
  },
  "fields of other types": {
    thrown: () =>
      withProperties({
        message: { value: 7 },
        name: { value: {} },
        stack: { value: [] },
        code: { value: 23505 },
      }),
    says: /object was thrown/,
  },
  "a false DrizzleQueryError": {
    thrown: () => ({ query: "q", params: ["p"], cause: undefined }),
    says: /A query failed/,
  },
};

const queue = createQueue({
  jobs: defineJobs({
    throwing: defineJob({
      payload: z.object({ what: z.string() }),
      maxAttempts: 2,
      backoff: fixed({ delayMs: 0 }),
    }),
  }),
});

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterEach(() => room.clear());
afterAll(() => room.close());

const throwingWorker = () =>
  createWorker({
    queue,
    db: room.db,
    pollIntervalMs: 50,
    instrumentation: room.spy.listener,
    handlers: {
      throwing: ({ payload }) => {
        throw cases[payload.what]?.thrown();
      },
    },
  });

test.each(Object.keys(cases))(
  "throwing %s is recorded as an error, and retried as usual",
  async (what) => {
    await using worker = throwingWorker();
    await worker.start();
    const { id } = await queue.enqueueNow(room.db, "throwing", { what });

    await room.spy.next("attempt.errored");
    await room.spy.next("job.failed");

    const job = await room.job(id);
    expect(job).toMatchObject({ status: "failed", attempts: 2 });
    expect(job?.lastError).toMatch(cases[what]?.says ?? /^$/);
    expect(job?.lastError?.length).toBeLessThanOrEqual(500);
    expect(job?.errors.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(room.spy.all("statement.errored")).toEqual([]);
    const [size] = await room.rows<{ bytes: number }>(
      "select octet_length(error_history::text) as bytes from queue_jobs where id = $1",
      [id],
    );
    expect(size?.bytes).toBeLessThan(30_000);
  },
);

test("what they threw together does not keep each other from being settled", async () => {
  await using worker = throwingWorker();
  const names = Object.keys(cases);
  await room.db.transaction((tx) =>
    queue.enqueueMany(
      tx,
      names.map((what) => ({ name: "throwing" as const, payload: { what } })),
    ),
  );
  await worker.start();
  for (const _ of names) await room.spy.next("job.failed");
  expect(
    await room.rows("select status, attempts, count(*)::int from queue_jobs group by 1, 2"),
  ).toEqual([{ status: "failed", attempts: 2, count: names.length }]);
});
