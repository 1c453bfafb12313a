import type { CancelAnswer } from "../../../src/queries/cancel-jobs.js";
import type { RequeueAnswer } from "../../../src/queries/requeue-jobs.js";
import type { SettleAnswer } from "../../../src/queries/settle-jobs.js";
import type { Claim, Item } from "./commands.js";

/** A job as the model has it; times are on the model's clock, in milliseconds. */
export interface ModelJob {
  readonly id: number;
  readonly key: string | null;
  readonly input: number;
  readonly maxAttempts: number;
  status: "queued" | "running" | "done" | "failed" | "cancelled";
  attempts: number;
  version: number;
  expired: number;
  dueMs: number;
  leaseMs: number | null;
  /** An operator has asked for its end. */
  isUnwanted: boolean;
}

/** What a worker believes to hold. */
export interface ModelHold {
  readonly jobId: number;
  readonly version: number;
}

/** A job that a claim returned: taken, or ended because no attempt was left or somebody had asked for it. */
export interface ModelClaim {
  readonly id: number;
  readonly version: number;
  readonly status: "running" | "failed" | "cancelled";
}

/** How a worker ends an attempt. */
export type ModelEnd = "complete" | "remove" | "retry" | "release" | "fail" | "cancel";

/** A lease, in milliseconds. */
export const LEASE_MS = 60_000;

/** From this many expiries on a job is taken one at a time. */
const SUSPECT = 2;

const OPEN: ReadonlySet<ModelJob["status"]> = new Set(["queued", "running"]);

const STATUS_AFTER = {
  complete: "done",
  remove: "done",
  retry: "queued",
  release: "queued",
  fail: "failed",
  cancel: "cancelled",
} as const;

/** What nobody wants any more is not tried again, nor given back, nor does it fail. */
const statusAfter = ({ isUnwanted }: ModelJob, end: ModelEnd): ModelJob["status"] =>
  isUnwanted && STATUS_AFTER[end] !== "done" ? "cancelled" : STATUS_AFTER[end];

/** What is said of a job that has ended at the version of whoever settles it. */
const endedAs = ({ status }: ModelJob, end: ModelEnd): SettleAnswer =>
  status === "cancelled" && end !== "complete" && end !== "remove" ? "was_cancelled" : "settled";

/** The queue in memory: what the SQL is compared with. */
export class QueueModel {
  readonly jobs = new Map<number, ModelJob>();
  readonly processed = new Map<string, { readonly id: number; readonly input: number }>();
  nowMs = 0;

  /** Time passes a little at each command, so that what came first is due first. */
  tick(ms = 0): void {
    this.nowMs += ms + 0.001;
  }

  /** What an enqueue has to answer: a new job, the one that has the key, or a conflict. */
  enqueue({ key, input }: Pick<Item, "key" | "input">): "new" | "conflict" | number {
    if (key === null) return "new";
    const known = [...this.jobs.values()].find((job) => job.key === key) ?? this.processed.get(key);
    if (known === undefined) return "new";
    return known.input === input ? known.id : "conflict";
  }

  /** Adds a job under the id that the database gave it. */
  add(id: number, { key, input, maxAttempts, delayMs }: Item): void {
    this.jobs.set(id, {
      id,
      key,
      input,
      maxAttempts,
      dueMs: this.nowMs + delayMs,
      status: "queued",
      attempts: 0,
      version: 0,
      expired: 0,
      leaseMs: null,
      isUnwanted: false,
    });
  }

  /** Jobs that a claim may take, in the order in which it has to. */
  claimable({ sweeps, suspects }: Claim): ModelJob[] {
    return [...this.jobs.values()]
      .filter((job) => job.dueMs <= this.nowMs && this.isToBeHad(job, sweeps))
      .filter((job) => !this.isSuspect(job) || (sweeps && suspects > 0))
      .sort((a, b) => a.dueMs - b.dueMs || a.id - b.id);
  }

  isSuspect(job: ModelJob): boolean {
    return job.expired + (job.status === "running" ? 1 : 0) >= SUSPECT;
  }

  /**
   * Only a free slot may take it: it has been tried, or has no attempt to spare.
   * A sweep knows besides what somebody wants ended: that has no use for a spare attempt.
   */
  needsSlot(job: ModelJob, sweeps: boolean): boolean {
    const isFresh = job.attempts === 0 && job.maxAttempts > 1 && job.status === "queued";
    return !isFresh && !this.isExhausted(job) && !(sweeps && job.isUnwanted);
  }

  /** It ends in the claim. */
  isExhausted(job: ModelJob): boolean {
    return job.attempts >= job.maxAttempts;
  }

  /** Takes a job as a claim does, and says what becomes of it. */
  claim(job: ModelJob): ModelClaim {
    const wasLost = job.status === "running";
    const ends = this.isExhausted(job) || (wasLost && job.isUnwanted);
    const status = ends ? (job.isUnwanted ? "cancelled" : "failed") : "running";
    if (wasLost) job.expired += 1;
    if (!ends) job.attempts += 1;
    job.status = status;
    job.leaseMs = ends ? null : this.nowMs + LEASE_MS;
    job.version += 1;
    return { id: job.id, version: job.version, status };
  }

  /** Whether the hold is still worth something. */
  holds({ jobId, version }: ModelHold): boolean {
    const job = this.jobs.get(jobId);
    return job?.status === "running" && job.version === version && !this.hasRunOut(job);
  }

  /** The id at a place among all, or one that is not there. */
  idAt(place: number): number {
    const ids = [...this.jobs.keys()];
    return ids[place % (ids.length + 1)] ?? 1_000_000;
  }

  cancel(id: number): CancelAnswer {
    const job = this.jobs.get(id);
    if (job === undefined) return "missing";
    if (!OPEN.has(job.status)) return "ended";
    job.isUnwanted = true;
    if (job.status === "running" && !this.hasRunOut(job)) return "requested";
    if (job.status === "running") job.version += 1;
    job.status = "cancelled";
    job.leaseMs = null;
    return "cancelled";
  }

  requeue(id: number): RequeueAnswer {
    const job = this.jobs.get(id);
    if (job === undefined) return "missing";
    if (OPEN.has(job.status)) return "open";
    if (job.status === "done") return "done";
    Object.assign(job, { status: "queued", attempts: 0, expired: 0, isUnwanted: false });
    job.dueMs = this.nowMs;
    return "requeued";
  }

  /** A queued job is claimed all the same; its first renewal tells. */
  cancelByHand(place: number): number | undefined {
    const open = [...this.jobs.values()].filter(({ status }) => OPEN.has(status));
    const job = open[place % Math.max(1, open.length)];
    if (job !== undefined) job.isUnwanted = true;
    return job?.id;
  }

  renew(hold: ModelHold): "renewed" | "lost" | "cancelled" {
    const job = this.jobs.get(hold.jobId);
    if (job === undefined || !this.holds(hold)) return "lost";
    job.leaseMs = this.nowMs + LEASE_MS;
    return job.isUnwanted ? "cancelled" : "renewed";
  }

  settle(hold: ModelHold, end: ModelEnd): SettleAnswer | undefined {
    const job = this.jobs.get(hold.jobId);
    if (job === undefined) return "gone";
    if (!this.holds(hold))
      return job.version === hold.version && job.status !== "running" ? endedAs(job, end) : "lost";
    job.leaseMs = null;
    if (end === "release") job.attempts -= 1;
    job.status = statusAfter(job, end);
    if (end === "retry") job.dueMs = this.nowMs;
    if (job.status === "done") this.record(job);
    if (end === "remove") this.jobs.delete(job.id);
    return job.status === STATUS_AFTER[end] ? undefined : "cancelled";
  }

  commit(hold: ModelHold): "held" | "lost" {
    const job = this.jobs.get(hold.jobId);
    if (job === undefined || !this.holds(hold)) return "lost";
    job.status = "done";
    job.leaseMs = null;
    this.record(job);
    return "held";
  }

  private record({ id, key, input }: ModelJob): void {
    if (key !== null) this.processed.set(key, { id, input });
  }

  private isToBeHad(job: ModelJob, sweeps: boolean): boolean {
    if (job.status === "queued") return sweeps || !this.isExhausted(job);
    return sweeps && job.status === "running" && this.hasRunOut(job);
  }

  private hasRunOut(job: ModelJob): boolean {
    return job.leaseMs !== null && job.leaseMs <= this.nowMs;
  }
}
