import { beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createQueue, defineJob, defineJobs } from "../../src/index.js";

const queue = createQueue({
  jobs: defineJobs({
    report: defineJob({ payload: z.object({ id: z.string() }) }),
    anything: defineJob({ payload: z.unknown() }),
    keyed: defineJob({ payload: z.unknown(), idempotencyKey: () => "k" }),
  }),
  maxPayloadBytes: 1_000,
});
type Enqueue = (
  tx: unknown,
  name: unknown,
  payload: unknown,
  options?: unknown,
) => Promise<unknown>;
const enqueue = queue.enqueue as unknown as Enqueue;
const enqueueNow = queue.enqueueNow as unknown as Enqueue;
const enqueueMany = queue.enqueueMany as unknown as (
  tx: unknown,
  items: unknown,
) => Promise<unknown>;

let sent: string[];
let rows: readonly object[];
const db = {
  execute: () => ({
    // oxlint-disable-next-line unicorn/no-thenable -- As Drizzle's queries, it is sent when `then` is called.
    then(resolve: (rows: unknown) => void) {
      sent.push("sent");
      resolve(rows);
    },
  }),
  selectDistinctOn: () => undefined,
};
const tx = { ...db, rollback: () => undefined };
beforeEach(() => {
  sent = [];
  rows = [{ id: "1", drawn: "1" }];
});

describe("what is wrong is a rejection before any SQL", () => {
  test.each<[string, string, unknown[]]>([
    ["an unknown job", "UNKNOWN_JOB", ["nope", {}]],
    ["a job called toString that nobody defined", "UNKNOWN_JOB", ["toString", {}]],
    ["no name", "UNKNOWN_JOB", [undefined, {}]],
    ["a payload that does not fit", "INVALID_PAYLOAD", ["report", { id: 1 }]],
    ["a missing payload", "INVALID_PAYLOAD", ["report", undefined]],
    ["NUL", "INVALID_PAYLOAD", ["report", { id: "\0" }]],
    ["a lone surrogate", "INVALID_PAYLOAD", ["report", { id: "\ud800" }]],
    ["a bigint", "INVALID_PAYLOAD", ["anything", 1n]],
    ["a payload over the limit", "INVALID_PAYLOAD", ["anything", "x".repeat(2_000)]],
    ["an unknown option", "INVALID_OPTION", ["report", { id: "a" }, { key: "k" }]],
    ["a wrong priority", "INVALID_OPTION", ["report", { id: "a" }, { priority: 10 }]],
    ["an invalid date", "INVALID_OPTION", ["report", { id: "a" }, { runAt: new Date("x") }]],
    [
      "a key of 10 kB",
      "INVALID_OPTION",
      ["report", { id: "a" }, { idempotencyKey: "k".repeat(10_000) }],
    ],
  ])("%s", async (_, code, [name, payload, options]) => {
    const refused = [
      enqueue(tx, name, payload, options),
      enqueueNow(db, name, payload, options),
      enqueueMany(tx, [
        { name: "anything", payload: 1 },
        { name, payload, options },
      ]),
    ];
    for (const result of await Promise.allSettled(refused)) {
      expect(result).toMatchObject({ status: "rejected", reason: { name: "QueueError", code } });
    }
    expect(sent).toEqual([]);
  });

  test.each<[string, unknown]>([
    ["a database", db],
    ["undefined", undefined],
    ["null", null],
  ])("%s in place of a transaction", async (_, notTx) => {
    await expect(enqueue(notTx, "report", { id: "a" })).rejects.toMatchObject({
      code: "NOT_A_TRANSACTION",
      message: expect.stringContaining("enqueueNow"),
    });
    await expect(enqueueMany(notTx, [])).rejects.toMatchObject({ code: "NOT_A_TRANSACTION" });
    expect(sent).toEqual([]);
  });

  test("a batch's issues begin with the index of the job", async () => {
    const items = [
      { name: "anything", payload: 1 },
      { name: "report", payload: { id: { nested: "top secret" } } },
    ];
    await expect(enqueueMany(tx, items)).rejects.toMatchObject({
      message: expect.stringMatching(
        /^enqueueMany\(\), job 1: Payload of job "report" is invalid: id: /,
      ),
      issues: [{ path: [1, "id"] }],
    });
  });

  test.each<[string, unknown]>([
    ["no array", { length: 1 }],
    ["no object", ["report"]],
    ["an array with a hole", Object.assign([], { length: 1 })],
    ["an unknown property", [{ name: "anything", payload: 1, priority: 1 }]],
  ])("a batch that is %s", async (_, items) => {
    await expect(enqueueMany(tx, items)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    expect(sent).toEqual([]);
  });

  test("a batch that repeats a key with another input, naming the job and how many more", async () => {
    const items = [1, 1, 2, 3].map((payload) => ({ name: "keyed", payload }));
    const message = 'Job "keyed": its idempotency key belongs to another input';
    await expect(enqueueMany(tx, items)).rejects.toMatchObject({
      code: "IDEMPOTENCY_CONFLICT",
      message: `enqueueMany(), job 2: ${message}, as for 1 more. Nothing was inserted.`,
      issues: [
        { path: [2], message },
        { path: [3], message },
      ],
    });
    await expect(enqueueMany(tx, items.slice(0, 3))).rejects.toMatchObject({
      message: `enqueueMany(), job 2: ${message}. Nothing was inserted.`,
    });
    expect(sent).toEqual([]);
  });

  test("enqueueNow without a database", async () => {
    await expect(enqueueNow(undefined, "report", { id: "a" })).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
  });
});

test("a key that is taken and freed over and over is no conflict: it says to try again", async () => {
  const contended = { code: "KEY_CONTENDED", message: expect.stringContaining("Try again") };
  rows = [];
  await expect(enqueue(tx, "keyed", 1)).rejects.toMatchObject(contended);
  rows = [{ drawn: "", known: null }];
  const items = [{ name: "keyed", payload: 1 }];
  await expect(enqueueMany(tx, items)).rejects.toMatchObject(contended);
});

test("the statement is sent before enqueue gives back its promise", async () => {
  const promises = [
    enqueue(tx, "anything", 1),
    enqueue(tx, "keyed", 1),
    enqueue(tx, "anything", 1, { delayMs: 5 }),
    enqueueNow(db, "anything", 1),
  ];
  expect(sent).toHaveLength(4);
  await Promise.all(promises);

  const batch = enqueueMany(tx, [{ name: "anything", payload: 1 }]);
  expect(sent).toHaveLength(5);
  await batch;
});
