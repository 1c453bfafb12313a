import type pg from "pg";
import { cancelJobs } from "../../../src/queries/cancel-jobs.js";
import type { Executor, Row } from "../../../src/queries/executor.js";
import { guardJob } from "../../../src/queries/guard-job.js";
import { releaseStrays } from "../../../src/queries/release-strays.js";
import { renewLeases } from "../../../src/queries/renew-leases.js";
import { requeueJobs } from "../../../src/queries/requeue-jobs.js";
import { settleAndClaim } from "../../../src/queries/settle-and-claim.js";
import type { Settlement } from "../../../src/queries/settle-jobs.js";
import { tableNames } from "../../../src/schema/table-names.js";
import { createClaimFloors } from "../../../src/worker/claim-floor.js";

/** Somebody who takes one step after the other, each of them one statement. */
export interface Actor {
  readonly name: string;
  readonly steps: readonly Step[];
}

/** One statement. */
export type Step = () => Promise<unknown>;

/** The connection of one actor. */
export interface Session {
  /** How it is called in `locked_by` and in the audit trail. */
  readonly who: string;
  readonly client: pg.Client;
  readonly pid: number;
}

/** What an actor holds while a job is its own. */
export interface Hold {
  jobId: number;
  version: number;
  /** What the guard said, if it was asked. */
  guard: "none" | "held" | "refused";
}

const tables = tableNames();
const claimAndSettle = settleAndClaim(tables);
const renew = renewLeases(tables);
const guard = guardJob(tables);
const strays = releaseStrays(tables);
const cancel = cancelJobs(tables);
const requeue = requeueJobs(tables);

/** So long that time passes by the step that moves it only. */
const LEASE_MS = 60_000;

const executorOf = ({ client }: Session): Executor => ({
  run: async ({ text, values }) =>
    (await client.query<Row & pg.QueryResultRow>(text, [...values])).rows,
});

/** All that is due lies below the floor, as for a worker that has looked before: suspects are looked for there only. */
const pairsNow = () =>
  createClaimFloors(["default"])
    .nextPairs()
    .map((pair) => ({ ...pair, floor: { atUs: Date.now() * 1_000, id: 0 } }));

/** Claims with a sweep, as a worker with one free slot does. */
export const claims =
  (session: Session, hold: Hold, names: readonly string[]): Step =>
  async () => {
    const { claim } = await claimAndSettle(executorOf(session), {
      items: [],
      request: {
        workerId: session.who,
        pairs: pairsNow(),
        names,
        free: 1,
        ahead: 0,
        leaseMs: LEASE_MS,
        leaseMsByName: {},
        sweep: { reachMs: null, exclusive: false, suspects: 1 },
        peeks: false,
        hasBacklog: false,
        isPrompt: false,
      },
    });
    const [job] = claim?.jobs ?? [];
    if (job === undefined || job.isProcessed) return;
    hold.jobId = job.id;
    hold.version = job.leaseVersion;
    if (job.name === "settle") await tellsOutside(session, hold);
  };

/** What is not committed with the completion has happened by the time that it is settled. */
const tellsOutside = ({ client, who }: Session, { jobId, version }: Hold): Promise<unknown> =>
  client.query(
    "insert into ledger.outside (no, job_id, attempt, version, who) values ($1, $1, 0, $2, $3)",
    [jobId, version, who],
  );

/** Renews the lease that the actor believes to hold. */
export const renews =
  (session: Session, hold: Hold): Step =>
  async () => {
    if (hold.version === 0) return;
    const lease = { id: hold.jobId, leaseVersion: hold.version, leaseMs: LEASE_MS };
    await renew(executorOf(session), [lease]);
  };

/** Settles the attempt that the actor believes to hold. */
export const settles =
  (session: Session, hold: Hold, settlement: Settlement): Step =>
  async () => {
    if (hold.version === 0) return;
    // Whose job a commit has completed has its key recorded by it.
    const recordsKey = settlement.way !== "discard";
    const item = { id: hold.jobId, leaseVersion: hold.version, settlement, recordsKey };
    await claimAndSettle(executorOf(session), { items: [item], request: undefined });
  };

/** Gives back what carries the actor's name and what it does not know of. */
export const releases =
  (session: Session): Step =>
  () =>
    strays(executorOf(session), {
      workerId: session.who,
      pairs: createClaimFloors(["default"]).nextPairs(),
      asked: 10,
      held: [],
    });

const alone = (id: number) => ({ ids: [id], isInTransaction: false, transaction: null });

/** Cancels the job at the start, as an operator does. */
export const cancels =
  (session: Session, { jobId }: Hold): Step =>
  () =>
    cancel(executorOf(session), alone(jobId));

/** Queues the job at the start again, if it has failed or was cancelled. */
export const requeues =
  (session: Session, { jobId }: Hold): Step =>
  () =>
    requeue(executorOf(session), alone(jobId));

/** The four statements of a `commit`: begin, effect, guard, and the end that the guard allows. */
export function commitSteps(session: Session, hold: Hold): Step[] {
  const { client, who } = session;
  const unlessIdle =
    (step: Step): Step =>
    async () =>
      hold.version === 0 ? undefined : step();
  return [
    unlessIdle(() => client.query("begin isolation level read committed")),
    unlessIdle(() =>
      client.query(
        "insert into ledger.effects (no, job_id, attempt, version, who) values ($1, $1, 0, $2, $3)",
        [hold.jobId, hold.version, who],
      ),
    ),
    unlessIdle(async () => {
      const attempt = { id: hold.jobId, leaseVersion: hold.version, hasKey: true, result: null };
      const { kind } = await guard(executorOf(session), attempt);
      hold.guard = kind === "held" ? "held" : "refused";
    }),
    unlessIdle(() => client.query(hold.guard === "held" ? "commit" : "rollback")),
  ];
}

/** Time passes until every lease has run out. It leaves no trace in the audit trail, as time does not. */
export const expires =
  (session: Session): Step =>
  () =>
    session.client.query(
      `begin; set local session_replication_role = replica;
       update public.queue_jobs set lease_until = statement_timestamp() - interval '1 millisecond'
       where status = 'running';
       commit`,
    );
