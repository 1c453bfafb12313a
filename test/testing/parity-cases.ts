import { sql } from "drizzle-orm";
import {
  createQueue,
  defineJob,
  defineJobs,
  FailJob,
  fixed,
  type Queue,
  SnoozeJob,
} from "drizzle-queue";
import { z } from "zod";
import type { JobMap } from "../../src/registry/job-definition.js";
import type { Room } from "../worker/room.js";

const B = { backoff: fixed({ delayMs: 100_000, jitter: 0 }), leaseMs: 500 };
const payload = z.object({});
const date = z.codec(z.iso.datetime(), z.date(), {
  decode: (text) => new Date(text),
  encode: (at) => at.toISOString(),
});
const jobs = defineJobs({
  record: defineJob({ payload: z.record(z.string(), z.unknown()), ...B }),
  filled: defineJob({
    payload,
    result: z.object({ a: z.number().default(3), at: date.optional() }),
    ...B,
  }),
  listed: defineJob({ payload, result: z.record(z.string(), z.number()), ...B }),
  length: defineJob({ payload, result: z.string().transform((text) => text.length), ...B }),
  nullable: defineJob({
    payload,
    result: z
      .number()
      .nullable()
      .transform((n) => n ?? "none"),
    ...B,
  }),
  nothing: defineJob({ payload, result: z.void(), ...B }),
  plain: defineJob({ payload, ...B }),
  once: defineJob({ payload, maxAttempts: 1, ...B }),
  keyed: defineJob({ payload, idempotencyKey: () => "key", ...B }),
  timed: defineJob({ payload: z.void(), timeoutMs: 100, ...B }),
});
/** The jobs that the handlers below are of. */
export const queue = createQueue({ jobs }) as unknown as Queue<JobMap>;

type Tx = Parameters<Parameters<Room["db"]["transaction"]>[0]>[0];

/** As far as these handlers use it. */
export interface Context {
  readonly signal: AbortSignal;
  commit(effect: (tx: Tx) => unknown): Promise<unknown>;
}
export type Handler = (context: Context) => unknown;
const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
/** A row of which there may be one once the transaction is committed. */
export const insert = (n: number) => sql`insert into effects (n) values (${n})`;
/** A row of which there may be one. */
const unique = (n: number) => sql`insert into unique_effects (n) values (${n})`;

/** A handler of a job, and what it is given where that matters. */
export type Case = readonly [title: string, job: string, handler: Handler, payload?: unknown];

const throwing = (error: unknown): Handler => {
  return () => {
    throw error;
  };
};
const untilAborted: Handler = ({ signal }) =>
  new Promise((resolve) => {
    signal.addEventListener("abort", resolve);
  });

const payloads: readonly Case[] = [
  ["keys in the order of jsonb", "record", () => null, { bbb: 1, a: 2, cc: { zz: 1, é: 2, y: 3 } }],
  ["keys that are numbers", "record", () => null, { b: 1, 10: 2, 9: [{ dd: 1, c: 2 }] }],
  ["numbers at the edges", "record", () => null, { x: -0, y: 1e21, z: 1e-7, w: 5e-324 }],
];
const results: readonly Case[] = [
  ["keys in the order of jsonb", "listed", () => ({ bb: 1, a: 2 })],
  ["a default", "filled", () => ({})],
  ["a codec", "filled", () => ({ at: new Date(0) })],
  ["the encoded side of a codec", "filled", () => ({ at: "2020-01-01T00:00:00Z" })],
  ["none where there must be one", "filled", () => undefined],
  ["a one-way transform", "length", () => "abc"],
  ["null", "nullable", () => null],
  ["null by commit", "nullable", ({ commit }) => commit(() => null)],
  ["void", "nothing", () => undefined],
  ["void by commit", "nothing", ({ commit }) => commit(() => undefined)],
  ["by a commit that nobody awaits", "filled", ({ commit }) => void commit(() => ({ a: 1 }))],
  ["a wrong one of such a commit", "filled", ({ commit }) => void commit(() => ({ a: "x" }))],
];
const errors: readonly Case[] = [
  ["of the last attempt", "once", throwing(new Error("last"))],
  ["of an earlier one", "plain", throwing(new Error("not yet"))],
  ["a failure", "plain", throwing(new FailJob("never"))],
  ["a snooze on the last attempt", "once", throwing(new SnoozeJob({ delayMs: 100_000 }))],
  ["nothing at all", "plain", throwing(undefined)],
];
const commits: readonly Case[] = [
  ["after the lease's own time", "once", ({ commit }) => sleep(700).then(() => commit(() => 1))],
  [
    "that fails the job",
    "once",
    ({ commit }) =>
      commit(async (tx) => {
        await tx.execute(insert(1));
        throw new FailJob("in commit");
      }),
  ],
  [
    "that caught an error of PostgreSQL",
    "plain",
    ({ commit }) =>
      commit(async (tx) => {
        await tx.execute(unique(1));
        await tx.execute(unique(1)).catch(() => undefined);
      }),
  ],
  [
    "that caught it in a savepoint",
    "plain",
    ({ commit }) =>
      commit(async (tx) => {
        await tx.execute(unique(1));
        await tx.transaction((inner) => inner.execute(unique(1))).catch(() => undefined);
      }),
  ],
  [
    "twice at once",
    "keyed",
    ({ commit }) => Promise.allSettled([commit(() => 1), commit(() => 2)]),
  ],
  ["twice", "keyed", ({ commit }) => commit(() => 1).then(() => commit(() => 2))],
  [
    "whose error is caught",
    "keyed",
    ({ commit }) => commit(() => Promise.reject(new Error("first"))).catch(() => undefined),
  ],
  ["rolled back", "keyed", ({ commit }) => commit((tx) => tx.rollback())],
  [
    "that COMMIT refuses",
    "keyed",
    ({ commit }) =>
      commit(async (tx) => {
        await tx.execute(insert(1));
        await tx.execute(insert(1));
      }),
  ],
];
const deadlines: readonly Case[] = [
  ["before", "timed", untilAborted],
  ["in a commit", "timed", ({ commit }) => commit(() => sleep(200))],
  ["before a commit", "timed", ({ commit }) => sleep(200).then(() => commit(() => 1))],
  ["after a commit", "timed", ({ commit }) => commit(() => 1).then(() => sleep(200))],
];

/** Every case, by what it is about. */
export const CASES: readonly (readonly [string, readonly Case[]])[] = [
  ["a payload", payloads],
  ["a result", results],
  ["an error", errors],
  ["a commit", commits],
  ["its time is up", deadlines],
];
