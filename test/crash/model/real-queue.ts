import { drizzle } from "drizzle-orm/node-postgres";
import { createQueue, defineJob, defineJobs, isQueueError } from "drizzle-queue";
import { type CancelAnswer, createAdmin, type RequeueAnswer } from "drizzle-queue/admin";
import type pg from "pg";
import { z } from "zod";
import type { ClaimAnswer } from "../../../src/queries/claimed-row.js";
import type { Executor, Row } from "../../../src/queries/executor.js";
import { type GuardAnswer, guardJob } from "../../../src/queries/guard-job.js";
import { type RenewAnswer, renewLeases } from "../../../src/queries/renew-leases.js";
import { settleAndClaim } from "../../../src/queries/settle-and-claim.js";
import type { SettleAnswer, SettleItem, Settlement } from "../../../src/queries/settle-jobs.js";
import { tableNames } from "../../../src/schema/table-names.js";
import { createClaimFloors } from "../../../src/worker/claim-floor.js";
import type { Claim, Item } from "./commands.js";
import { LEASE_MS, type ModelEnd, type ModelHold } from "./model.js";

const queue = createQueue({
  jobs: defineJobs({ work: defineJob({ payload: z.object({ input: z.number() }) }) }),
});
const admin = createAdmin({ queue });
const tables = tableNames();
const run = settleAndClaim(tables);
const renewAll = renewLeases(tables);
const guard = guardJob(tables);

const ended = (
  status: "queued" | "failed" | "cancelled",
  isUncounted: boolean,
  delayMs: number | null,
) =>
  ({
    way: "end",
    status,
    delayMs,
    isUncounted,
    error: null,
    errorLine: null,
    result: null,
  }) as const;

const SETTLEMENTS: Readonly<Record<ModelEnd, Settlement>> = {
  complete: { way: "complete" },
  remove: { way: "remove" },
  retry: ended("queued", false, 0),
  release: ended("queued", true, null),
  fail: ended("failed", false, null),
  cancel: ended("cancelled", false, null),
};

/** What an enqueue said of its jobs, in their order. */
export type EnqueueAnswer =
  | readonly { readonly id: number; readonly created: boolean }[]
  | "conflict";

/** An attempt that a worker ends. */
export interface Ending {
  readonly hold: ModelHold;
  readonly end: ModelEnd;
}

/** The queue as it is, one statement at a time. */
export interface RealQueue {
  clear(): Promise<void>;
  enqueue(item: Item): Promise<EnqueueAnswer>;
  enqueueMany(items: readonly Item[]): Promise<EnqueueAnswer>;
  /** Settles, claims, or both in one statement. */
  turn(
    ending: Ending | undefined,
    claim: Claim | undefined,
  ): Promise<{
    readonly unsettled: SettleAnswer | undefined;
    readonly claim: ClaimAnswer | undefined;
  }>;
  renew(hold: ModelHold): Promise<"renewed" | RenewAnswer>;
  commit(hold: ModelHold): Promise<GuardAnswer["kind"]>;
  cancel(id: number): Promise<CancelAnswer>;
  requeue(id: number): Promise<RequeueAnswer>;
  /** As an operator does it who has nothing but SQL. */
  cancelByHand(id: number): Promise<void>;
  /** Moves all times into the past: the same as if so much time had passed. */
  advance(ms: number): Promise<void>;
  stored(): Promise<Row>;
}

/** Speaks to the tables through the statements of the library. */
export function createRealQueue(client: pg.Client): RealQueue {
  const db = drizzle(client);
  const rows = async (text: string, values: unknown[] = []): Promise<Row[]> =>
    (await client.query<Row & pg.QueryResultRow>(text, values)).rows;
  const executor: Executor = { run: ({ text, values }) => rows(text, [...values]) };
  return {
    async clear() {
      await rows("truncate public.queue_jobs, public.queue_processed_keys restart identity");
    },
    enqueue: (item) =>
      orConflict(async () => [
        await queue.enqueueNow(db, "work", { input: item.input }, optionsOf(item)),
      ]),
    enqueueMany: (items) =>
      orConflict(() =>
        db.transaction((tx) =>
          queue.enqueueMany(
            tx,
            items.map((item) => ({
              name: "work" as const,
              payload: { input: item.input },
              options: optionsOf(item),
            })),
          ),
        ),
      ),
    async turn(ending, claim) {
      const answer = await run(executor, {
        items: ending === undefined ? [] : [settleItem(ending)],
        request: claim === undefined ? undefined : claimRequest(claim),
      });
      return {
        unsettled: answer.unsettled.get(ending?.hold.jobId ?? 0),
        claim: answer.claim,
      };
    },
    async renew({ jobId, version }) {
      const lease = { id: jobId, leaseVersion: version, leaseMs: LEASE_MS };
      const answers = await renewAll(executor, [lease]);
      return answers.get(jobId) ?? "renewed";
    },
    async commit({ jobId, version }) {
      await client.query("begin isolation level read committed");
      const attempt = { id: jobId, leaseVersion: version, hasKey: true, result: null };
      const { kind } = await guard(executor, attempt);
      await client.query(kind === "held" ? "commit" : "rollback");
      return kind;
    },
    cancel: (id) => admin.cancel(db, id),
    requeue: (id) => admin.requeue(db, id),
    async cancelByHand(id) {
      await rows("update public.queue_jobs set cancel_requested_at = now() where id = $1", [id]);
    },
    async advance(ms) {
      await rows(
        `update public.queue_jobs set lease_until = lease_until - $1 * interval '1 millisecond',
           available_at = available_at - $1 * interval '1 millisecond'`,
        [ms],
      );
    },
    async stored() {
      const [row] = await rows(STORED);
      return row ?? {};
    },
  };
}

const STORED = `
  select coalesce((select json_agg(json_build_object('id', id, 'status', status, 'attempts', attempts,
      'version', lease_version, 'expired', expired_leases, 'leased', lease_until is not null) order by id)
      from public.queue_jobs), '[]') as jobs,
    coalesce((select json_agg(json_build_object('key', idempotency_key, 'id', job_id) order by idempotency_key)
      from public.queue_processed_keys), '[]') as keys`;

const optionsOf = ({ key, maxAttempts, delayMs }: Item) => ({
  idempotencyKey: key,
  maxAttempts,
  delayMs,
});

async function orConflict(enqueue: () => Promise<EnqueueAnswer>): Promise<EnqueueAnswer> {
  try {
    return await enqueue();
  } catch (error) {
    if (isQueueError(error, "IDEMPOTENCY_CONFLICT")) return "conflict";
    throw error;
  }
}

const settleItem = ({ hold, end }: Ending): SettleItem => ({
  id: hold.jobId,
  leaseVersion: hold.version,
  settlement: SETTLEMENTS[end],
  recordsKey: end === "complete" || end === "remove",
});

const claimRequest = ({ free, ahead, sweeps, suspects, isPrompt }: Claim) => ({
  workerId: "worker",
  // All that is due lies below the floor of a sweep, as for a worker that has looked before.
  pairs: createClaimFloors(["default"])
    .nextPairs()
    .map((pair) => ({
      ...pair,
      floor: sweeps ? { atUs: Date.now() * 1_000 + 1_000_000, id: 0 } : null,
    })),
  names: ["work"],
  free,
  ahead,
  leaseMs: LEASE_MS,
  leaseMsByName: {},
  sweep: sweeps ? { reachMs: null, exclusive: false, suspects } : undefined,
  peeks: sweeps,
  hasBacklog: false,
  isPrompt,
});
