import { type FieldFault, testsIn } from "./fault.js";

const KEYS = "queries/insert-jobs-keys.test.ts";
const RACES = "queries/insert-jobs-races.test.ts";

/** D: enqueue, uniqueness, batches, ids. */
export const ENQUEUEING: readonly FieldFault[] = [
  {
    id: "D57",
    fault: "The insert meets a conflict, and the look-up after it finds no row.",
    outcome: "Asked again within the same call: every answer is a job, and nobody sees 23505.",
    seen: ["rudderlabs/rudder-server#4241"],
    tests: testsIn(
      RACES,
      "against somebody who deletes the same key all the time, every answer is a job",
      "inserts it if the other's job is gone again before the second statement",
    ),
  },
  {
    id: "D58",
    fault: "Two batches take the same keys in opposite order and deadlock.",
    outcome: "Keys are taken in sorted order and answered in the caller's.",
    seen: ["riverqueue/river#7"],
    tests: testsIn(
      RACES,
      "eight producers of the same keys in any order do not deadlock, and make each job once",
    ),
    reason:
      "One by one in opposite order, two transactions of an app can still deadlock, as [promise 5](guarantees.md#5-liveness) says.",
  },
  {
    id: "D59",
    fault: "Inserts that are skipped use up the numbers of a 32-bit sequence.",
    outcome: "Duplicates draw no number, and every sequence has 64 bits.",
    seen: ["graphile/worker#619"],
    tests: [
      ...testsIn(KEYS, "duplicates draw no numbers"),
      ...testsIn(
        "migrations/sequences.test.ts",
        "every number that the tables draw has 64 bits, in its sequence and in its column",
      ),
    ],
  },
  {
    id: "D61",
    fault: "A key stays taken by a job that is dead or orphaned, against what its user expects.",
    outcome:
      "One rule: taken while the row is there, whatever its state, which the answer tells; and while the processed key is.",
    seen: ["oban-bg/oban#424", "rails/solid_queue#804", "procrastinate-org/procrastinate#1543"],
    tests: testsIn(
      KEYS,
      "a key whose job is %s stays taken",
      "a key that was processed answers without a new job, until it expires",
    ),
  },
  {
    id: "D63",
    fault:
      "More than 65,535 values do not fit into one statement, and the batch is lost or garbled.",
    outcome:
      "A batch is a fixed number of values, whatever its size; it is inserted as a whole and answered in order.",
    seen: ["brianc/node-postgres#581", "brianc/node-postgres#2292", "typeorm/typeorm#7565"],
    tests: testsIn(
      "queries/insert-jobs.test.ts",
      "10,000 jobs are one statement, answered and numbered in their order",
    ),
  },
  {
    id: "D64",
    fault:
      "The same key twice in a batch is an error, or gives fewer answers than there were inputs.",
    outcome: "One answer for each input: created, or a duplicate of which job.",
    seen: ["https://www.postgresql.org/docs/current/sql-insert.html"],
    tests: testsIn(KEYS, "a batch maps repeats to the first, among fresh and stored keys"),
  },
  {
    id: "D65",
    fault:
      "A long key does not fit into an index entry, depending on how well it can be compressed.",
    outcome:
      "At most 512 bytes, refused before any SQL; the largest fits whatever it holds; keys are equal when their bytes are.",
    seen: ["rails/solid_queue#151", "payloadcms/payload#8787"],
    tests: [
      ...testsIn(
        KEYS,
        "a key and a name of the largest size are stored whatever they hold, and their Unicode forms are apart",
      ),
      ...testsIn(
        "unit/enqueue-options.test.ts",
        "refuses %s",
        "takes 512 bytes, quotes, and what looks like SQL",
      ),
    ],
  },
  {
    id: "D66",
    fault:
      "A duplicate is dropped and answered with nothing, and somebody waits for a job that is not there.",
    outcome: "The answer names the job that is there, its state, and that it was not created.",
    seen: ["timgit/pg-boss#81", "timgit/pg-boss#353"],
    tests: testsIn(
      KEYS,
      "a second enqueue of a key answers the first job, in one statement",
      "a key whose job is %s stays taken",
    ),
  },
  {
    id: "D67",
    fault:
      "A job starts before the data that it needs is committed, or for work that was rolled back.",
    outcome: "Job, data and notification come with the same commit, or not at all.",
    seen: ["https://brandur.org/postgres-queues"],
    tests: [
      ...testsIn(
        "guarantees/a-rolled-back-enqueue-leaves-no-job.test.ts",
        "when it rolls itself back, while a worker listens: nothing ever starts",
        "for the part that a savepoint takes back",
      ),
      ...testsIn(
        "queries/insert-jobs-wake-up.test.ts",
        "wakes a waiting worker at the commit, and not before",
      ),
      ...testsIn("worker/wake-up.test.ts", "is woken by the commit of an enqueue"),
    ],
  },
  {
    id: "D68",
    fault: "An option counts in one way of enqueueing and is forgotten in another.",
    outcome: "The same options make the same row in every way.",
    seen: ["riverqueue/river#121", "riverqueue/river#679", "timgit/pg-boss#861"],
    tests: [
      ...testsIn(
        "queries/insert-jobs-ways.test.ts",
        "the same options make the same row, whichever way a job is enqueued",
      ),
      ...testsIn(
        "scheduler/turns.test.ts",
        "passes its options on, and names the job that had its key before",
      ),
    ],
  },
  {
    id: "D69",
    fault:
      "A job that is run again keeps its old lease or loses its history; its former worker can complete the new life.",
    outcome:
      "Attempts begin anew, history and key stay, and the lease version only grows: the former worker is refused.",
    seen: ["https://github.com/timgit/pg-boss/commits/master"],
    tests: [
      ...testsIn(
        "admin/requeue.test.ts",
        "that failed gives it all its attempts again; its errors and its key stay",
        "clears what its former life has left in the row, but not the fence",
      ),
      ...testsIn(
        "docs/operations-sql.test.ts",
        "a job that is queued again by hand is out of reach for the worker that held it before",
      ),
    ],
  },
];
