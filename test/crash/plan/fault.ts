/** A process of the fleet by its place: `w3` is worker 3, `p1` producer 1. */
export type Slot = string;

/** Which of a process's connections a network fault hits. */
export type ConnectionKind = "main" | "renewal" | "listen" | "app" | "any";

/** What can be done to the system, and to whom. */
export type FaultAction =
  /** kill -9; it is started again after `downMs`. */
  | { readonly kind: "kill"; readonly slot: Slot; readonly downMs: number }
  /** kill -STOP, and -CONT after `ms`. */
  | { readonly kind: "pause"; readonly slot: Slot; readonly ms: number }
  /** A request to stop in good order, perhaps twice. */
  | { readonly kind: "term"; readonly slot: Slot; readonly times: 1 | 2; readonly downMs: number }
  | {
      readonly kind:
        | "cut"
        | "fin"
        /** The server's side is closed, the client is never told. */
        | "half-open"
        /** The next statement is carried out, its answer is lost and the connection with it. */
        | "reply-lost"
        /** The next statement never arrives, and the connection breaks. */
        | "unsent"
        /** The same of the next one that settles. */
        | "settle-unsent"
        /** The connection breaks in the middle of a message to the client. */
        | "torn";
      readonly slot: Slot;
      readonly of: ConnectionKind;
    }
  | {
      readonly kind: "delay" | "swallow";
      readonly slot: Slot;
      readonly of: ConnectionKind;
      readonly direction: "toServer" | "toClient" | "both";
      readonly ms: number;
    }
  /** For a while every statement on these connections arrives only at the end of it: stale by then. */
  | {
      readonly kind: "late";
      readonly slot: Slot;
      readonly of: "renewal" | "any";
      readonly ms: number;
    }
  | { readonly kind: "refuse"; readonly slot: Slot; readonly ms: number }
  /** The next COMMIT never arrives, or is carried out and its answer lost. */
  | { readonly kind: "commit-unsent" | "commit-unanswered"; readonly slot: Slot }
  /** The next COMMIT arrives `ms` late. */
  | { readonly kind: "commit-held"; readonly slot: Slot; readonly ms: number }
  /** The server crashes (`immediate`) and is started again after `downMs`. */
  | { readonly kind: "restart"; readonly downMs: number }
  /** `pg_terminate_backend` of this many sessions, at random. */
  | { readonly kind: "terminate"; readonly sessions: number }
  /** The database refuses to write for a while. */
  | { readonly kind: "read-only"; readonly ms: number }
  /** New sessions of the fleet's role get settings that an app would not expect. */
  | { readonly kind: "role-settings"; readonly ms: number }
  /** A transaction is held open, so that nothing can be vacuumed. */
  | { readonly kind: "held-snapshot"; readonly ms: number }
  /** An operator cancels a job in this state; of any kind that may be asked, or rather of those that are there for it. */
  | {
      readonly kind: "cancel";
      readonly status: "queued" | "running";
      readonly of: "any" | "unwanted";
    }
  /** An operator queues a job again that has failed or was cancelled. */
  | { readonly kind: "requeue" }
  /** Idle sessions take what is left of `max_connections`. */
  | { readonly kind: "crowd"; readonly ms: number };

export type FaultKind = FaultAction["kind"];

/** One fault of a plan: what, and when after the start of the run. */
export interface Fault {
  readonly id: number;
  readonly atMs: number;
  readonly action: FaultAction;
}

/** Everything that will be done to the system in one run, decided before it starts. */
export interface FaultPlan {
  readonly level: string;
  readonly seed: number;
  readonly faults: readonly Fault[];
}
