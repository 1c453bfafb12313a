import { sql } from "drizzle-orm";
import { createQueue, defineJob, defineJobs, fixed, type Queue } from "drizzle-queue";
import type { AbortCode } from "drizzle-queue/testing";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import type { JobMap } from "../../src/registry/job-definition.js";
import { createGate, openRoom, type Room } from "../worker/room.js";
import { inTest, onWorker, type Told, toldOf } from "./both-ways.js";

const settings = {
  payload: z.object({}),
  backoff: fixed({ delayMs: 60_000, jitter: 0 }),
  // A worker renews, and so learns of a cancel or a loss, once a third of it has passed.
  leaseMs: 900,
};
const queue = createQueue({
  jobs: defineJobs({
    work: defineJob({ ...settings, timeoutMs: null }),
    timed: defineJob({ ...settings, timeoutMs: 100 }),
  }),
}) as unknown as Queue<JobMap>;

/** Some reasons do not reach a handler that is in its commit, or that has committed. */
const LONGEST_MS = 500;

let room: Room;
beforeAll(async () => {
  room = await openRoom();
  await room.rows("create table effects (n integer not null)");
});
afterEach(async () => {
  await room.rows("truncate effects");
  await room.clear();
});
afterAll(() => room.close());

type Place = "before" | "inside" | "after";

interface Context {
  readonly signal: AbortSignal;
  commit(effect: (tx: Room["db"]) => Promise<unknown>): Promise<unknown>;
}

/** Commits one effect, and has the attempt aborted before, inside or after that. */
function committing(place: Place, abort: () => Promise<unknown>) {
  return async ({ signal, commit }: Context): Promise<void> => {
    const isAborted = new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve());
    });
    const beAborted = async (): Promise<void> => {
      await abort();
      await Promise.race([
        isAborted,
        new Promise((resolve) => {
          setTimeout(resolve, LONGEST_MS);
        }),
      ]);
    };
    if (place === "before") await beAborted();
    await commit(async (tx) => {
      await tx.execute(sql`insert into effects (n) values (1)`);
      if (place === "inside") await beAborted();
    });
    if (place === "after") await beAborted();
  };
}

/** How the world makes a worker abort an attempt. */
const causes = (stop: () => void): Readonly<Record<AbortCode, () => Promise<unknown>>> => ({
  ATTEMPT_TIMED_OUT: async () => undefined,
  JOB_CANCELLED: () =>
    room.rows("update queue_jobs set cancel_requested_at = now() where finished_at is null"),
  LEASE_LOST: () =>
    room.rows(
      "update queue_jobs set lease_version = lease_version + 1, locked_by = 'another', lease_until = now() + interval '1 minute' where status = 'running'",
    ),
  WORKER_STOPPING: async () => stop(),
});

const effects = async () => (await room.rows("select n from effects")).length;

async function abortedInTest(place: Place, abort: AbortCode): Promise<[Told, number]> {
  const begun = createGate();
  const handler = committing(place, async () => begun.open());
  const of = { queue, name: "work", payload: {}, handler };
  const end = await inTest(room, of, { abort: begun.opened.then(() => abort) });
  return [toldOf(end), await effects()];
}

async function abortedOnWorker(place: Place, abort: AbortCode): Promise<[Told, number]> {
  let stop = (): void => {};
  const handler = committing(place, () => causes(stop)[abort]());
  const name = abort === "ATTEMPT_TIMED_OUT" ? "timed" : "work";
  const told = await onWorker(room, { queue, name, payload: {}, handler }, (given) => {
    stop = given;
  });
  return [told, await effects()];
}

const TIMED_OUT: Told = {
  kind: "retry",
  error: "AttemptError ATTEMPT_TIMED_OUT",
  delayMs: 60_000,
};

describe.each([
  ["before", "ATTEMPT_TIMED_OUT", TIMED_OUT, 0],
  ["before", "JOB_CANCELLED", { kind: "cancel" }, 0],
  ["before", "LEASE_LOST", { kind: "lost" }, 0],
  ["before", "WORKER_STOPPING", { kind: "done" }, 1],
  ["inside", "ATTEMPT_TIMED_OUT", { kind: "done" }, 1],
  ["inside", "JOB_CANCELLED", { kind: "done" }, 1],
  ["inside", "LEASE_LOST", { kind: "lost" }, 0],
  ["inside", "WORKER_STOPPING", { kind: "done" }, 1],
  ["after", "ATTEMPT_TIMED_OUT", { kind: "done" }, 1],
  ["after", "JOB_CANCELLED", { kind: "done" }, 1],
  ["after", "LEASE_LOST", { kind: "done" }, 1],
  ["after", "WORKER_STOPPING", { kind: "done" }, 1],
] as const)("aborted %s its commit by %s", (place, abort, told, written) => {
  test("an attempt ends in a test as it does on a worker", async () => {
    expect(await abortedOnWorker(place, abort)).toEqual([told, written]);
    await room.rows("truncate effects");
    expect(await abortedInTest(place, abort)).toEqual([told, written]);
  });
});
