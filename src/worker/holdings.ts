import type { QueueEvent } from "../instrumentation/instrumentation.js";
import { type ClaimAnswer, type ClaimedJob, isSuspect } from "../queries/claimed-row.js";
import type { JobMap } from "../registry/job-definition.js";
import type { ClaimRoom } from "./claim-room.js";
import { monotonicMs } from "./clock.js";
import { abortJob, eventAttempt, type HeldJob, holdJob } from "./held-job.js";
import { createLookAhead } from "./look-ahead.js";
import { type Outcome, outcomeOf } from "./outcome.js";
import type { RunJob } from "./run-job.js";
import { createSettleBuffer, type SettleBuffer } from "./settle-buffer.js";
import type { DoneRetention } from "./settlement.js";
import { createSlots } from "./slots.js";

/**
 * The jobs that a worker holds, from the claim to the answer that they are
 * settled: each is in exactly one phase, and leaves this map exactly once.
 */
export interface Holdings {
  readonly settles: SettleBuffer;
  /** Takes what a claim gave that was sent at `sentAtMs` for so many free slots, and ahead. */
  take(answer: ClaimAnswer, sentAtMs: number, claimedFor: number): void;
  all(): Iterable<HeldJob>;
  ids(): readonly number[];
  /** Neither a job is held nor does a handler run. */
  isEmpty(): boolean;
  /** How many jobs more there is room for; none once `close` was called. */
  room(): ClaimRoom;
  lose(held: HeldJob, noticedBy: "renewal" | "deadline" | "settle" | "commit"): void;
  timeOut(held: HeldJob): void;
  cancel(held: HeldJob): void;
  freeStuck(nowMs: number): void;
  /** Gives back those of these queues that have not started. */
  withdraw(queues: ReadonlySet<string>): void;
  /** Takes no more jobs and gives back those that have not started, now or when they come in. */
  close(): void;
  /** How many were given back since. */
  released(): number;
  /** Tells every handler that the worker stops. */
  abortAll(): void;
  /** Resolves when no handler runs. */
  idle(): Promise<void>;
  running(): readonly HeldJob[];
}

export interface HoldingsOptions {
  readonly concurrency: number;
  readonly shortestLeaseMs: number;
  readonly retention: DoneRetention;
  readonly jobs: JobMap;
  readonly workerId: string;
  readonly runJob: RunJob;
  /** The priority of a job that was passed over, if any: jobs in line that are not more urgent leave free slots to it. */
  readonly yieldsTo: () => number | undefined;
  /** Whether no job of a queue is to start. */
  readonly isPaused: (queue: string) => boolean;
  /** Something changed that the claim loop may act on. */
  readonly onChange: () => void;
  readonly onClaimed: (count: number) => void;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

const LAST_LEASE_EXPIRED = {
  name: "AttemptError",
  message: "The lease of the last attempt ran out.",
  code: "LEASE_EXPIRED",
};

/**
 * A suspect that has run for this long is no longer taken to kill its process, and another may
 * follow: if long jobs are what was lost, one at a time to its end would take for ever.
 */
const TRIAL_MS = 2_000;

/** Creates empty holdings. */
export function createHoldings(options: HoldingsOptions): Holdings {
  const { concurrency, jobs, emit } = options;
  const byId = new Map<number, HeldJob>();
  const lookAhead = createLookAhead(options);
  let isClosed = false;
  let released = 0;

  const drop = (held: HeldJob): void => {
    held.phase = "over";
    // A lost job may have come back to this very worker, under another version.
    if (byId.get(held.job.id) === held) byId.delete(held.job.id);
  };

  const lose: Holdings["lose"] = (held, noticedBy) => {
    if (held.phase === "over") return;
    drop(held);
    abortJob(
      held,
      "LEASE_LOST",
      "its lease was lost; nothing that it writes through commit is accepted any more.",
    );
    emit?.({ type: "lease.lost", ...eventAttempt(held), noticedBy });
    options.onChange();
  };

  const settles = createSettleBuffer({
    retention: options.retention,
    isBusy: () => slots.isBusy(),
    onSettled: drop,
    onLost: (held) => lose(held, "settle"),
    emit,
  });

  const end = (held: HeldJob, outcome: Outcome): void => {
    // A commit that succeeded after its lease seemed lost has done the job all the same.
    const isLateCommit = outcome.kind === "committed" && held.phase === "over";
    if (held.phase !== "waiting" && held.phase !== "running" && !isLateCommit) return;
    if (outcome.kind === "lost") return lose(held, "commit");
    held.phase = "ending";
    settles.add(held, outcome);
    options.onChange();
  };

  const run = async (held: HeldJob): Promise<void> => {
    const outcome = await options.runJob(held);
    lookAhead.observe(monotonicMs() - held.startedAtMs, held.job.payload.length);
    end(held, outcome);
  };

  /** A commit that hangs must not hold its job; if it comes through after all, the server lets one of the two win. */
  const giveUp = (held: HeldJob): void => end(held, outcomeOf(held.abortReason, held));

  const holdsSuspect = (): boolean => {
    const nowMs = monotonicMs();
    for (const { job, phase, startedAtMs } of byId.values()) {
      const isOnTrial = phase !== "running" || nowMs - startedAtMs < TRIAL_MS;
      if (isSuspect(job) && isOnTrial) return true;
    }
    return false;
  };

  const giveBack = (held: HeldJob): void => {
    released += 1;
    end(held, { kind: "release" });
  };

  const slots = createSlots({
    concurrency,
    run,
    yieldsTo: options.yieldsTo,
    onStuck: giveUp,
    onFree: options.onChange,
    emit,
  });

  const hold = (job: ClaimedJob, sentAtMs: number): HeldJob | undefined => {
    const definition = jobs[job.name];
    if (definition === undefined) return undefined;
    const taken = holdJob(job, definition, sentAtMs);
    const former = byId.get(job.id);
    // Claimed anew by this very worker, before it has noticed that the lease ran out.
    if (former !== undefined) lose(former, "deadline");
    byId.set(job.id, taken);
    if (job.isRecovered) emit?.({ type: "lease.expired", ...eventAttempt(taken), retried: true });
    emit?.({ type: "job.claimed", ...eventAttempt(taken), workerId: options.workerId });
    if (isClosed) giveBack(taken);
    else if (options.isPaused(job.queue)) end(taken, { kind: "release" });
    else if (job.isProcessed) end(taken, { kind: "done", result: null, by: "already_processed" });
    return taken.phase === "waiting" ? taken : undefined;
  };

  return {
    settles,
    take({ jobs: claimed, ended }, sentAtMs, claimedFor) {
      options.onClaimed(claimed.length);
      for (const job of ended) {
        const attempt = eventAttempt({ job });
        emit?.({ type: "lease.expired", ...attempt, retried: false });
        if (job.outcome === "cancelled") emit?.({ type: "job.cancelled", ...attempt });
        else emit?.({ type: "job.failed", ...attempt, error: LAST_LEASE_EXPIRED });
      }
      const taken = claimed.map((job) => hold(job, sentAtMs)).filter((job) => job !== undefined);
      slots.offer(taken, claimedFor);
    },
    all: () => byId.values(),
    ids: () => [...byId.keys()],
    isEmpty: () => byId.size === 0 && slots.running().length === 0,
    room() {
      if (isClosed) return { free: 0, ahead: 0, holdsSuspect: false };
      const waiting = slots.waiting();
      const ahead = lookAhead.size();
      return {
        free: slots.free(),
        // Half of it is used up before more is fetched: a statement for each job would cost more than it hides.
        ahead: waiting > ahead / 2 ? 0 : ahead - waiting,
        holdsSuspect: holdsSuspect(),
      };
    },
    lose,
    timeOut(held) {
      const { timeoutMs } = held.definition;
      abortJob(held, "ATTEMPT_TIMED_OUT", `it ran longer than timeoutMs, ${timeoutMs} ms.`);
      // A commit under way decides by itself, unless it hangs: it either completes the job or errors.
      if (held.commit === "none") giveUp(held);
    },
    cancel(held) {
      abortJob(held, "JOB_CANCELLED", "it was cancelled.");
      if (held.commit === "none") end(held, { kind: "cancel" });
    },
    freeStuck: slots.freeStuck,
    withdraw(queues) {
      const isOfThem = ({ job }: HeldJob): boolean => queues.has(job.queue);
      for (const held of slots.withdraw(isOfThem)) end(held, { kind: "release" });
    },
    close() {
      isClosed = true;
      for (const held of slots.withdraw(() => true)) giveBack(held);
    },
    released: () => released,
    abortAll() {
      for (const held of slots.running())
        abortJob(held, "WORKER_STOPPING", "the worker is stopping.");
    },
    idle: slots.idle,
    running: slots.running,
  };
}
