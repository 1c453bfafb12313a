import process from "node:process";
import { setTimeout as pauseFor } from "node:timers/promises";
import { sql } from "drizzle-orm";
import { type NodePgDatabase } from "drizzle-orm/node-postgres";
import { FailJob, SnoozeJob } from "drizzle-queue";
import type { HandlerJob } from "drizzle-queue/worker";
import type pg from "pg";
import { contestedText, LINGER_MS } from "../fleet/contest.js";
import type { AttemptEntry } from "../ledger/entries.js";
import type { Journal } from "../ledger/journal.js";
import { ACCOUNTS } from "../ledger/ledger-tables.js";
import { childOf, type OrderKind } from "../plan/orders.js";
import { type CrashQueue, NASTY } from "./jobs.js";
import { machineMs } from "./surroundings.js";

/** What the handlers of a worker process need. */
export interface HandlerTools {
  readonly queue: CrashQueue;
  /** Auto-commit connections: they stand for a destination outside of the database. */
  readonly outside: pg.Pool;
  readonly journal: Journal<AttemptEntry>;
  readonly who: string;
  readonly leaseMs: number;
  /** The lease version of the attempt that has just been started at a job. */
  readonly versionOf: (jobId: number) => number;
}

type Tx = Parameters<Parameters<NodePgDatabase["transaction"]>[0]>[0];

interface Payload {
  readonly no: number;
  readonly kind: OrderKind;
  readonly workMs: number;
  readonly fails: number;
  readonly text: string;
}

interface Context {
  readonly payload: Payload;
  readonly job: HandlerJob;
  readonly signal: AbortSignal;
  readonly commit: (effect: (tx: Tx) => Promise<void>) => Promise<unknown>;
}

interface Attempt extends Context {
  readonly version: number;
  readonly tools: HandlerTools;
}

/** The error that a job throws because it was told to. */
class PlannedError extends Error {
  override readonly name = "PlannedError";
  readonly code = "PLANNED";
}

/** One handler for each kind of job; each tells the ledger when it starts and how it ends. */
export function createHandlers(tools: HandlerTools) {
  const tell = (act: (attempt: Attempt) => Promise<unknown>) => (context: unknown) =>
    attemptOf(tools, context as Context, act);
  const commits = tell(async (attempt) => attempt.commit((tx) => effect(tx, attempt)));
  return {
    effect: commits,
    delayed: commits,
    long: commits,
    unwanted: commits,
    keyed: commits,
    blocking: tell(async (attempt) => {
      // Once: a job that blocks for longer than its lease at each attempt could never be done.
      if (attempt.job.attempt === 1) block(attempt.payload.workMs);
      await attempt.commit((tx) => effect(tx, attempt));
    }),
    flaky: tell(async (attempt) => {
      if (attempt.job.attempt <= attempt.payload.fails) throw new PlannedError("as planned");
      await attempt.commit((tx) => effect(tx, attempt));
    }),
    snoozing: tell(async (attempt) => {
      if ((await tellOutside(attempt)) === 1) throw new SnoozeJob({ delayMs: 300 });
      await attempt.commit((tx) => effect(tx, attempt));
    }),
    "slow-commit": tell(async (attempt) =>
      attempt.commit(async (tx) => {
        // No pause is as long as a lease, but together with the attempt's other work they are longer.
        await pauseFor(attempt.payload.workMs);
        await effect(tx, attempt);
        await pauseFor(attempt.payload.workMs);
        await tx.execute(sql`select 1`);
        await pauseFor(attempt.payload.workMs);
      }),
    ),
    contested: tell(async (attempt) => {
      await contend(attempt);
      await attempt.commit((tx) => effect(tx, attempt));
    }),
    "contested-settle": tell(async (attempt) => {
      await tellOutside(attempt);
      await contend(attempt);
    }),
    parent: tell(async (attempt) => attempt.commit((tx) => effectWithChild(tx, attempt))),
    nasty: tell(async (attempt) => {
      const { no, text } = attempt.payload;
      if (text !== NASTY[no % NASTY.length])
        tools.journal.write({ what: "mismatch", who: tools.who, no });
      await attempt.commit((tx) => effect(tx, attempt));
    }),
    settle: tell(async (attempt) => {
      await tellOutside(attempt);
      return { no: attempt.payload.no };
    }) as (context: unknown) => Promise<{ no: number }>,
    "keyed-settle": tell(async (attempt) => void (await tellOutside(attempt))),
    hopeless: tell(async () => {
      throw new FailJob("never again");
    }),
    hanging: tell(() => new Promise(() => undefined)),
    poison: tell(async () => {
      process.kill(process.pid, "SIGKILL");
      await new Promise(() => undefined);
    }),
  } as Record<OrderKind, (context: unknown) => Promise<never>>;
}

async function attemptOf(
  tools: HandlerTools,
  context: Context,
  act: (attempt: Attempt) => Promise<unknown>,
): Promise<unknown> {
  const { payload, job, signal } = context;
  const { no, kind, workMs } = payload;
  const version = tools.versionOf(job.id);
  const facts = { who: tools.who, jobId: job.id, no, version };
  tools.journal.write({
    what: "start",
    ...facts,
    kind,
    attempt: job.attempt,
    atMs: machineMs(),
  });
  try {
    if (workMs > 0 && kind !== "blocking") await pauseFor(workMs, undefined, { signal });
    const returned = await act({ ...context, version, tools });
    tools.journal.write({ what: "end", ...facts, how: "good", atMs: machineMs() });
    return returned;
  } catch (error) {
    tools.journal.write({ what: "end", ...facts, how: howOf(error, signal), atMs: machineMs() });
    throw error;
  }
}

/** The code or class of what was thrown, never its text. */
function howOf(error: unknown, signal: AbortSignal): string {
  const reason = signal.aborted ? (signal.reason as { readonly code?: string }).code : undefined;
  const { code, name, cause } = error as {
    readonly code?: string;
    readonly name?: string;
    readonly cause?: { readonly code?: string };
  };
  return reason ?? code ?? cause?.code ?? name ?? typeof error;
}

/** The words of a contested job's holder are late; whoever follows him is still at it when they arrive. */
async function contend({ payload, job, tools }: Attempt): Promise<void> {
  await tools.outside.query(contestedText(payload.no));
  if (job.attempt > 1) await pauseFor(LINGER_MS);
}

/** Keeps the process's only thread busy, as a large synchronous computation does. */
function block(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs) Math.sqrt(untilMs);
}

/** The effect: a row of the ledger, and one unit from an account of side a to one of side b. */
async function effect(tx: Tx, { payload: { no }, job, version, tools }: Attempt): Promise<void> {
  const account = (no % ACCOUNTS) + 1;
  await tx.execute(
    sql`insert into ledger.effects (no, job_id, attempt, version, who)
      values (${no}, ${job.id}, ${job.attempt}, ${version}, ${tools.who})`,
  );
  await tx.execute(
    sql`update ledger.accounts set balance = balance - 1 where id = ${account}::int`,
  );
  await tx.execute(
    sql`update ledger.accounts set balance = balance + 1 where id = ${account + ACCOUNTS}::int`,
  );
}

async function effectWithChild(tx: Tx, attempt: Attempt): Promise<void> {
  await effect(tx, attempt);
  const no = childOf(attempt.payload.no);
  const child = { no, kind: "effect", workMs: 0, fails: 0, text: "child" };
  const { id } = await attempt.tools.queue.enqueue(tx, "effect", child);
  await tx.execute(
    sql`insert into ledger.orders (no, job_id, who) values (${no}, ${id}, ${attempt.tools.who})`,
  );
}

/** @returns how often this job has been told of, this time included. */
async function tellOutside({ payload, job, version, tools }: Attempt): Promise<number> {
  const { rows } = await tools.outside.query<{ times: string }>(
    `with told as (insert into ledger.outside (no, job_id, attempt, version, who) values ($1, $2, $3, $4, $5))
     select count(*) + 1 as times from ledger.outside where job_id = $2`,
    [payload.no, job.id, job.attempt, version, tools.who],
  );
  return Number(rows[0]?.times);
}
