import { type FieldFault, testsIn } from "./fault.js";

/** A: leases, fencing, recovery after a crash, completion. */
export const LEASES: readonly FieldFault[] = [
  {
    id: "A1",
    fault:
      "Recovery reads stuck rows, and updates them later by id alone: a job that ended or was claimed anew in between starts over.",
    outcome:
      "Recovery is one statement that locks, checks and changes; what ended stays ended, a new attempt is left alone.",
    seen: ["riverqueue/river#1302"],
    tests: [
      ...testsIn(
        "crash/interleavings.test.ts",
        "every invariant holds in each order of two actors' statements, and in some of three",
      ),
      ...testsIn("queries/locked-rows.test.ts", "%s passes a locked candidate by"),
      ...testsIn(
        "guarantees/a-stale-worker-cannot-settle.test.ts",
        "a stale worker can neither complete, retry, fail, snooze nor commit a newer claim",
      ),
    ],
  },
  {
    id: "A2",
    fault:
      "A live worker's long job is handed to a second worker, by age or for a missed heartbeat; both complete it.",
    outcome:
      "A renewed lease is left alone for as long as it takes. After a lost one the handler is told, and of two completions one is accepted.",
    seen: ["hexpm/hexpm#1825", "oban-bg/oban#1141", "rails/solid_queue#589"],
    tests: testsIn(
      "worker/leases.test.ts",
      "a job that runs for five leases, renewed in time, has one attempt",
      "a worker whose renewals do not get through ends its handler before another may start, and cannot commit",
    ),
  },
  {
    id: "A5",
    fault:
      "The jobs of a crashed process stay locked for hours, or until somebody clears them by hand.",
    outcome:
      "They run again after the lease and a poll, with one attempt more and the cause on record.",
    seen: ["graphile/worker#204", "graphile/worker#449", "timgit/pg-boss#436"],
    tests: testsIn(
      "guarantees/a-killed-worker-loses-no-job.test.ts",
      "the jobs of a killed worker run again after their lease, on another worker",
    ),
  },
  {
    id: "A7",
    fault:
      "Recovery joins to the dead worker's own row, which another cleaner has deleted: its jobs are never found.",
    outcome: "Recovery reads the jobs' rows alone. The test deletes all rows of workers first.",
    seen: ["procrastinate-org/procrastinate#1518"],
    tests: testsIn(
      "guarantees/a-killed-worker-loses-no-job.test.ts",
      "the jobs of a killed worker run again after their lease, on another worker",
    ),
  },
  {
    id: "A8",
    fault: "Recovery is itself a job, which gets stuck and keeps its successors out.",
    outcome:
      "Every claim of any worker can recover; who dies while doing so leaves nothing behind.",
    seen: ["procrastinate-org/procrastinate#1408"],
    tests: [
      ...testsIn("queries/claim-jobs.test.ts", "gives way, when told to, while another one sweeps"),
      ...testsIn(
        "crash/crash-points.test.ts",
        "every invariant holds when a process or a connection ends at any of its statements",
      ),
    ],
    reason:
      "The only lock is an advisory one that ends with its statement. Pruning is begun by every worker, on its own.",
  },
  {
    id: "A10",
    fault: "A handler blocks the event loop, so its heartbeat stops and the job starts elsewhere.",
    outcome:
      "The late commit is refused with its effect, the other attempt's stands, and the blocked loop is reported.",
    seen: ["taskforcesh/bullmq#2857", "OptimalBits/bull#412"],
    tests: testsIn(
      "guarantees/a-woken-worker-cannot-write.test.ts",
      "a handler that kept its process busy for longer than its lease is refused; the effect is there once",
    ),
  },
  {
    id: "A11",
    fault:
      "A process that was suspended wakes up half alive: it writes what is not its own any more, or never works again.",
    outcome: "Nothing stale is accepted, and the woken process claims again.",
    seen: ["rails/solid_queue#763", "leo91000/graphile_worker_rs#337"],
    tests: [
      ...testsIn(
        "guarantees/a-woken-worker-cannot-write.test.ts",
        "a worker that was frozen %s for longer than its lease is refused when it wakes; the effect is there once",
      ),
      ...testsIn(
        "crash/t0.test.ts",
        "every invariant holds while processes, connections and the server break (T0)",
      ),
    ],
    reason: "Recurring jobs, the other half of these reports, come later.",
  },
  {
    id: "A12",
    fault:
      "One passing error while completions are written ends the retry loop, and the batch or the worker is lost.",
    outcome:
      "They are sent again, ever later, while the lease holds; then dropped and reported. The handler does not run twice.",
    seen: ["graphile/worker#636", "riverqueue/river#1292"],
    tests: [
      ...testsIn(
        "worker/settling.test.ts",
        "that the server refuses with %s for %i times is sent again, and the handler is not",
        "survives the end of the connection that carries it",
      ),
      ...testsIn(
        "unit/worker/settle-buffer.test.ts",
        "what was lost while it waited does not leave",
      ),
    ],
  },
  {
    id: "A13",
    fault:
      "A job is deleted while it runs, and its worker falls over the empty answer to its completion.",
    outcome: "Reported once as lost; the others of its batch are completed.",
    seen: ["riverqueue/river#1303"],
    tests: testsIn(
      "worker/settling.test.ts",
      "of a job that was deleted meanwhile is reported once as lost, and hurts nobody else",
    ),
  },
  {
    id: "A15",
    fault:
      "Attempts are counted where an error is caught, so a job that kills its process is tried without end.",
    outcome: "Counted at the claim: it starts maxAttempts times and is failed, while others go on.",
    seen: ["vectorize-io/hindsight#2675", "sidekiq/sidekiq#5300"],
    tests: [
      ...testsIn(
        "guarantees/an-exhausted-job-becomes-failed.test.ts",
        "a job whose every attempt ends in a crash starts maxAttempts times and becomes failed",
      ),
      ...testsIn(
        "guarantees/a-poison-job-fails-alone.test.ts",
        "one job that kills its process, among 200 innocents, fails alone: all innocents are done",
      ),
    ],
  },
  {
    id: "A16",
    fault:
      "What was fetched while the process stops is orphaned; a stop that comes during the start is forgotten.",
    outcome:
      "A stop at any moment, once or twice, gives back what has not started, without using up an attempt.",
    seen: ["timgit/pg-boss#237", "timgit/pg-boss#303"],
    tests: testsIn(
      "worker/stop.test.ts",
      "0 to 50 ms after a start that nobody awaited leaves nothing behind",
      "under load, again and again, loses and repeats nothing",
      "gives back what has not started, with its attempt",
      "twice, or from two sides at once, is one stop",
    ),
  },
  {
    id: "A17",
    fault: "A stop waits for a statement on a dead connection, for ever.",
    outcome:
      "It returns two seconds after the grace period at the latest and says which jobs it left.",
    seen: ["procrastinate-org/procrastinate#1513"],
    tests: testsIn(
      "worker/stop.test.ts",
      "does not wait for ever on a network that swallows everything",
    ),
  },
  {
    id: "A18",
    fault:
      "After a stop, timers still query; a stopped instance does not start again; a handler cannot enqueue during it.",
    outcome:
      "No session is left, it starts again, handlers enqueue until they end, and the app's pool is not closed.",
    seen: ["timgit/pg-boss#361", "timgit/pg-boss#268", "timgit/pg-boss#576"],
    tests: testsIn(
      "worker/stop.test.ts",
      "can be started again",
      "has not closed the app's pool",
      "a handler can enqueue while the worker is stopping",
    ),
  },
  {
    id: "A20",
    fault:
      "A timeout rejects only the wrapper: the work goes on beside its own retry, and both write.",
    outcome:
      "The signal aborts with its reason, the late commit is refused, and the retry waits for its backoff.",
    seen: ["timgit/pg-boss#622"],
    tests: testsIn(
      "worker/timeouts.test.ts",
      "a commit after the timeout is refused, and the retry does not come before the backoff",
    ),
  },
  {
    id: "A21",
    fault: "A handler that never settles keeps its slot for good.",
    outcome: "After its timeout it is reported as stuck and its slot goes to others; stop returns.",
    seen: ["riverqueue/river#1258", "livekit/agents-js#2151"],
    tests: testsIn(
      "worker/timeouts.test.ts",
      "handlers that never settle give their slots to others, and stop still returns",
    ),
  },
  {
    id: "A22",
    fault:
      "A cancel does nothing where nobody listens, or the job is tried again or completed after it.",
    outcome:
      "It is read with each renewal and each retry: the job ends as done or as cancelled, as the event says, and never runs again.",
    seen: ["riverqueue/river#1245", "OCA/queue#773"],
    tests: [
      ...testsIn(
        "worker/cancel-requests.test.ts",
        "aborts its handler, and the job is cancelled and not tried again, %s",
        "that loses to its completion leaves it done, as the event says",
        "that is not noticed before %s keeps it from being run again",
        "that is not noticed before its worker stops is carried out with its release",
      ),
      ...testsIn(
        "admin/cancel.test.ts",
        "of jobs that are cancelled while workers run them, each ends as the answer allows, and runs once at most",
      ),
    ],
  },
  {
    id: "A23",
    fault: "0, -1 and none mean one thing to the worker and another to maintenance.",
    outcome:
      "Null is the one word for no time limit; every other value outside of its range is refused when it is defined.",
    seen: ["riverqueue/river#1331", "riverqueue/river#350"],
    tests: testsIn(
      "unit/registry.test.ts",
      "refuses a wrong %s by name: %j",
      "keeps null as no time limit",
    ),
  },
  {
    id: "A100",
    fault:
      "Clearing away what has ended is one large delete: it runs into its time limit again and again, or two of them into a deadlock.",
    outcome:
      "Batches of at most 1,000 rows that lock only what nobody has locked; each begins where the last one ended; a stop waits for one of them at most.",
    seen: ["timgit/pg-boss#282", "riverqueue/river#1016", "bensheldon/good_job#1711"],
    tests: [
      ...testsIn(
        "worker/pruning.test.ts",
        "two workers prune 40,000 jobs together while one of them is stopped, and no statement errors",
        "a job that a foreign key of the app holds stays, and its neighbours go",
      ),
      ...testsIn(
        "unit/pruning.test.ts",
        "rests four times as long as a batch takes, and takes fewer when they are slow",
        "begins each search where the last one ended",
      ),
    ],
  },
];
