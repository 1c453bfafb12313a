/** What a contender's module makes: the same few abilities, whoever it is. */
export interface Contender {
  /** Creates its tables. */
  install(): Promise<void>;
  /** Enqueues jobs numbered from 0, as fast as it can. */
  seed(count: number): Promise<void>;
  /** Enqueues one job in a transaction of its own, or as near to it as it comes. */
  enqueue?(number: number): Promise<void>;
  /** The same, in a transaction that commits only after `openMs`. */
  enqueueLate?(number: number, openMs: number): Promise<void>;
  /** Enqueues one job that is due at a moment to come. */
  enqueueAt?(number: number, dueAt: Date): Promise<void>;
  /** Runs jobs from now on. */
  start(handler: (number: number) => Promise<void> | void): Promise<void>;
  /** Whether any job is neither done nor given up. */
  isUnfinished(): Promise<boolean>;
  stop(): Promise<void>;
}

/** What a contender is opened with. */
export interface ContenderOptions {
  readonly url: string;
  readonly concurrency: number;
  /** What this entry of the table sets, beside concurrency. */
  readonly settings: Readonly<Record<string, unknown>>;
}

/** A line of the tables: a library with settings. */
export interface Entry {
  readonly name: string;
  /** The module that makes it, relative to this folder. */
  readonly module: string;
  /** Entries with the same one start from copies of the same database. */
  readonly family: string;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly database: "postgresql" | "redis";
  /** Whether a whole drain would take minutes: then it is measured by what it does in a few seconds. */
  readonly isSlow?: boolean;
  /** What it promises and does with rows, for the report. */
  readonly semantics: Semantics;
}

export interface Semantics {
  /** Whether a worker that lost its job can still settle it. */
  readonly fenced: string;
  readonly doneRows: "kept" | "deleted";
  readonly recovery: string;
  readonly enqueueInCallersTransaction: string;
  readonly typedPayload: string;
}
