import type { OrderKind } from "../plan/orders.js";

/** What a producer knows of one enqueue: written before it is sent, and once it is answered. */
export type AckEntry =
  | { readonly what: "intent"; readonly no: number; readonly who: string }
  | {
      readonly what: "acked";
      readonly no: number;
      readonly who: string;
      readonly jobId: number;
      readonly created: boolean;
    }
  /** Rolled back on purpose: it must not exist. */
  | { readonly what: "rolled-back"; readonly no: number; readonly who: string }
  /** It errored, perhaps after its COMMIT had been carried out. */
  | {
      readonly what: "unknown";
      readonly no: number;
      readonly who: string;
      readonly code: string;
    };

/** What a worker process knows of its attempts. */
export type AttemptEntry =
  /** The process would hear of a request to stop from here on. */
  | { readonly what: "ready"; readonly who: string }
  | {
      readonly what: "start";
      readonly who: string;
      readonly jobId: number;
      readonly no: number;
      readonly kind: OrderKind;
      readonly attempt: number;
      readonly version: number;
      readonly atMs: number;
    }
  | {
      readonly what: "end";
      readonly who: string;
      readonly jobId: number;
      readonly no: number;
      readonly version: number;
      /** `committed` and `returned` are good ends; else the code or class of what was thrown. */
      readonly how: string;
      readonly atMs: number;
    }
  /** The handler got something else than what was enqueued. */
  | { readonly what: "mismatch"; readonly who: string; readonly no: number }
  /** An event of the worker, without the frequent ones. */
  | { readonly what: "event"; readonly who: string; readonly event: object }
  | RestEntry;

/** What is left in a worker process that has nothing to do, once all garbage is collected. */
export interface RestEntry {
  readonly what: "rest";
  readonly who: string;
  /** How many attempts it has started in its life. */
  readonly starts: number;
  readonly heapBytes: number;
  /** The heap before the worker was made, also without garbage. */
  readonly firstHeapBytes: number;
  /** What keeps the process up, by kind, such as timers and sockets. */
  readonly resources: Readonly<Record<string, number>>;
  /** Living objects by class. */
  readonly objects: Readonly<Record<string, number>>;
}

/** What happened to the processes. */
export type FleetEntry =
  | { readonly what: "spawn"; readonly who: string; readonly atMs: number }
  | {
      readonly what: "signal";
      readonly who: string;
      readonly signal: string;
      readonly atMs: number;
    }
  | {
      readonly what: "exit";
      readonly who: string;
      readonly code: number | null;
      readonly signal: string | null;
      /** Which of our deeds explains it; null when none does. */
      readonly because: "kill" | "term" | "finished" | null;
      /** From the first request to end, in milliseconds. */
      readonly tookMs: number | null;
      readonly atMs: number;
    };

/** A row version of the jobs table. */
export interface AuditEntry {
  readonly seq: number;
  /** Milliseconds since 1970, by the server. */
  readonly atMs: number;
  readonly statementMs: number;
  readonly xid: string;
  readonly who: string;
  readonly app: string;
  readonly op: "INSERT" | "UPDATE" | "DELETE";
  readonly jobId: number;
  readonly no: number;
  readonly name: string;
  readonly old: AuditedRow | null;
  readonly new: AuditedRow | null;
}

/** The columns of a job that matter for the promises. */
export interface AuditedRow {
  readonly status: string;
  readonly version: number;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly priority: number;
  readonly dueMs: number;
  readonly leaseMs: number | null;
  readonly lockedBy: string | null;
  readonly expired: number;
  /** Somebody has asked for its end. */
  readonly isUnwanted: boolean;
}

/** One effect, inside of a job's transaction or outside. */
export interface EffectEntry {
  readonly no: number;
  readonly jobId: number;
  readonly attempt: number;
  readonly version: number;
  readonly who: string;
  readonly xid: string;
}

/** A row of the app that was written together with an enqueue. */
export interface OrderRow {
  readonly no: number;
  readonly jobId: number;
}

/** A job's row at the end. */
export interface JobRow {
  readonly jobId: number;
  readonly no: number;
  readonly name: string;
  readonly status: string;
  readonly lastError: string | null;
}

/** What else the database holds at the end. */
export interface FinalState {
  readonly accounts: { readonly a: number; readonly b: number };
  readonly keys: readonly { readonly name: string; readonly key: string; readonly jobId: number }[];
  /** Sessions that nobody should have any more. */
  readonly sessions: readonly string[];
  readonly workers: number;
  /** PostgreSQL's version. */
  readonly server: string;
}
