/** What is done at a statement. */
export type Deed =
  /** The process is killed; the statement never arrives. */
  | "kill-before"
  /** The statement is carried out; the process is killed before it hears so. */
  | "kill-after"
  /** The connection breaks; the statement never arrives. */
  | "cut-before"
  /** The statement is carried out; the connection breaks instead of the answer. */
  | "answer-lost"
  /** The answer arrives, and then the connection breaks. */
  | "cut-after";

export const DEEDS: readonly Deed[] = [
  "kill-before",
  "kill-after",
  "cut-before",
  "answer-lost",
  "cut-after",
];

/** A statement in the life of a job, or of a process that serves jobs. */
export interface CrashPoint {
  readonly name: string;
  /** Whose statement it is. */
  readonly by: "worker" | "producer";
  /** Tells the statement by its label: its prepared name, or how its text begins. */
  readonly statement: RegExp;
  /** Its place among the statements of this kind, counted from 1. */
  readonly nth?: number;
  /** What must have happened before, so that the statement is sent at all. */
  readonly after?: { readonly statement: RegExp; readonly deed: Deed };
  /** Which statements there are depends on whether done jobs stay. */
  readonly retention?: "keep" | "delete";
}

const SETTLES = "(complete|remove|discard|end)";

/** Every statement that a worker or an enqueueing app sends. */
export const CRASH_POINTS: readonly CrashPoint[] = [
  { name: "session settings", by: "worker", statement: /^set / },
  { name: "number of the session", by: "worker", statement: /^select pg_catalog\.pg_backend_pid/ },
  { name: "check tables", by: "worker", statement: /^check_tables/ },
  { name: "forget dead workers", by: "worker", statement: /^forget/ },
  { name: "look for old jobs", by: "worker", statement: /^find_old_jobs/ },
  { name: "prune", by: "worker", statement: /^prune_processed_keys/ },
  { name: "listen", by: "worker", statement: /^listen/ },
  { name: "register worker", by: "worker", statement: /^register/ },
  { name: "unregister worker", by: "worker", statement: /^unregister/ },
  { name: "claim with sweep", by: "worker", statement: /^sweep/ },
  { name: "claim", by: "worker", statement: /(^|_)claim/ },
  { name: "renew", by: "worker", statement: /^renew/ },
  { name: "begin of a commit", by: "worker", statement: /^begin/ },
  { name: "limit of a commit", by: "worker", statement: /set_config/ },
  { name: "effect", by: "worker", statement: /^insert into ledger\.effects/ },
  { name: "account", by: "worker", statement: /^update ledger\.accounts set balance = balance \+/ },
  { name: "outside effect", by: "worker", statement: /ledger\.outside/ },
  { name: "row of a follow-up", by: "worker", statement: /^insert into ledger\.orders/ },
  {
    name: "follow-up enqueue",
    by: "worker",
    statement: /^with .*queue_jobs|^insert into .*queue_jobs/,
  },
  { name: "guard", by: "worker", statement: /^update .*queue_jobs. as job set status = 'done'/ },
  { name: "guard with a key", by: "worker", statement: /^with guarded/ },
  { name: "commit", by: "worker", statement: /^commit/ },
  { name: "second commit", by: "worker", statement: /^commit/, nth: 2 },
  { name: "settle: complete", by: "worker", statement: /complete/, retention: "keep" },
  { name: "settle: retry, snooze, fail or result", by: "worker", statement: /(^|_)end/ },
  { name: "settle: a later one", by: "worker", statement: /(^|_)end/, nth: 2 },
  { name: "settle: delete", by: "worker", statement: /(^|_)remove/, retention: "delete" },
  {
    name: "settle: delete after commit",
    by: "worker",
    statement: /(^|_)discard/,
    retention: "delete",
  },
  { name: "settle: record keys", by: "worker", statement: /_keys/ },
  {
    name: "release of strays",
    by: "worker",
    statement: /^release_strays/,
    after: { statement: new RegExp(`^(${SETTLES}.*_)?(claim|sweep)`), deed: "answer-lost" },
  },
  {
    name: "status of a transaction",
    by: "worker",
    statement: /^transaction_status/,
    after: { statement: /^commit/, deed: "answer-lost" },
  },
  { name: "begin of an app", by: "producer", statement: /^begin/ },
  { name: "enqueue", by: "producer", statement: /^insert into .*queue_jobs/ },
  { name: "keyed enqueue", by: "producer", statement: /^with known/ },
  { name: "enqueue of many", by: "producer", statement: /^with (item|job) as/ },
  { name: "row of an app", by: "producer", statement: /^insert into ledger\.orders/ },
  { name: "commit of an app", by: "producer", statement: /^commit/ },
  { name: "a later commit of an app", by: "producer", statement: /^commit/, nth: 3 },
];
