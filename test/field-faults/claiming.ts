import { type FieldFault, testsIn } from "./fault.js";

const PLANS = "guarantees/statements-keep-their-plans.test.ts";
const WAKING = "queries/insert-jobs-wake-up.test.ts";
const ORDER_COMES_LATER =
  "Order per key is not here yet ([not promised](guarantees.md#what-is-not-promised)): no key blocks or is blocked. It comes with ordering.";

/** C: the claim, its plans and its order; being woken. */
export const CLAIMING: readonly FieldFault[] = [
  {
    id: "C37",
    fault:
      "A subselect with a limit is run again for each outer row, and one claim takes many times its limit.",
    outcome:
      "The form of the statement makes more than the limit impossible, under any statistics.",
    seen: ["saurabhnanda/odd-jobs#115", "rust-playground/relay-rs#22"],
    tests: testsIn(
      "worker/claim-limit.test.ts",
      "%s a worker of five slots claims five of a hundred jobs under statistics of a single row",
    ),
  },
  {
    id: "C39",
    fault:
      "Stale or skewed statistics make the planner turn to another plan, and the claim a hundred times slower.",
    outcome: "With a million rows each statement reads what it needs, whatever the statistics say.",
    seen: ["timgit/pg-boss#842", "timgit/pg-boss#885"],
    tests: testsIn(
      PLANS,
      "when it is planned under statistics that still say empty",
      "when the statistics know nothing of the rows that are due",
    ),
  },
  {
    id: "C40",
    fault: "Millions of finished rows slow down the claim.",
    outcome: "Finished rows are not in the claim's index: 700,000 of them are not read.",
    seen: ["timgit/pg-boss#228", "Flagsmith/flagsmith#4271", "fleetdm/fleet#21088"],
    tests: testsIn(PLANS, "when it is planned under fresh statistics"),
  },
  {
    id: "C41",
    fault: "A heap of jobs that are due later stands in front of those that are due.",
    outcome: "The claim stops at the present: a hundred thousand future rows are not read.",
    seen: ["timgit/pg-boss#72"],
    tests: testsIn(PLANS, "when it was planned on an empty, analysed table"),
  },
  {
    id: "C42",
    fault:
      "A long transaction anywhere keeps dead entries in the index, and every claim walks over them.",
    outcome:
      "A claim changes no index, and looks above a floor that moves: 600,000 dead entries do not delay a job.",
    seen: ["https://brandur.org/postgres-queues"],
    tests: [
      ...testsIn(
        "guarantees/a-late-commit-starts-soon.test.ts",
        "starts as soon with 600,000 dead entries that an old snapshot keeps in the index",
      ),
      ...testsIn(
        "queries/hot-updates.test.ts",
        "at least 95 % of claims and renewals touch no index, with the optional settings and no snapshot held",
      ),
    ],
    reason:
      "Throughput over minutes is measured by the benchmarks. A check that names the blocking session comes with operations.",
  },
  {
    id: "C44",
    fault:
      "The oldest jobs are picked first and found blocked afterwards; what stands behind them never runs.",
    outcome:
      "Every condition comes before the limit: 300 jobs that nobody may run do not hold up the one behind them.",
    seen: ["timgit/pg-boss#849", "timgit/pg-boss#756"],
    tests: testsIn(
      "worker/names.test.ts",
      "leaves alone the jobs whose names it does not know, and takes those behind them",
    ),
    reason: ORDER_COMES_LATER,
  },
  {
    id: "C45",
    fault: "While a key's first job waits for its retry, a later one of the key overtakes it.",
    outcome: "Strict order, or another name for it.",
    seen: ["taskforcesh/bullmq#2774"],
    tests: [],
    reason: ORDER_COMES_LATER,
  },
  {
    id: "C46",
    fault:
      "A job of a key that is due later holds up the ready ones, or does not, against what is written.",
    outcome: "One written rule.",
    seen: ["procrastinate-org/procrastinate#1599"],
    tests: testsIn(
      "worker/claim-order.test.ts",
      "jobs start by priority, and among equals in the order of their enqueue",
    ),
    reason: `Without keys the rule is priority, then time. ${ORDER_COMES_LATER}`,
  },
  {
    id: "C47",
    fault: "A key stays locked when its first job has failed for good, or is gone.",
    outcome: "Free again, or visibly halted.",
    seen: ["graphile/worker#254", "procrastinate-org/procrastinate#1543", "rails/solid_queue#804"],
    tests: [],
    reason: ORDER_COMES_LATER,
  },
  {
    id: "C49",
    fault: "Workers poll hard while there is nothing to do, or while they have no room.",
    outcome: "At most 70 statements a minute when idle, and no claim while all slots are taken.",
    seen: ["timgit/pg-boss#418", "riverqueue/river#222"],
    tests: [
      ...testsIn(
        "worker/idle-cost.test.ts",
        "an idle worker sends at most 70 statements a minute in all",
      ),
      ...testsIn(
        "worker/claim-limit.test.ts",
        "a worker whose slots are all taken sends no claim, however many jobs wait",
      ),
    ],
  },
  {
    id: "C50",
    fault: "Each notification wakes all workers, and most of them find nothing.",
    outcome: "An enqueue names whom it wakes: two of those who wait.",
    seen: ["riverqueue/river#222"],
    tests: testsIn(WAKING, "wakes two of many workers, not all"),
  },
  {
    id: "C51",
    fault: "A thousand jobs in one transaction are one notification and wake one worker.",
    outcome:
      "As many are woken as there are jobs, and all slots of five workers are taken within a second.",
    seen: ["https://github.com/graphile/worker/blob/main/RELEASE_NOTES.md"],
    tests: [
      ...testsIn(
        "worker/wake-up.test.ts",
        "wakes five workers with one statement of a thousand jobs",
      ),
      ...testsIn(WAKING, "a batch wakes one worker more than it has due jobs, each of them once"),
    ],
  },
  {
    id: "C52",
    fault: "Commits with a notification wait for a lock of the whole server, one after the other.",
    outcome:
      "Notified is only who has said that he waits: under load nobody, and no commit carries one.",
    seen: ["https://www.recall.ai/blog/postgres-listen-notify-does-not-scale"],
    tests: testsIn(WAKING, "does not wake a worker %s", "a duplicate wakes nobody"),
    reason:
      "What it costs is measured by the benchmarks ([ADR 0007](adr/0007-notify-only-when-somebody-waits.md)).",
  },
  {
    id: "C53",
    fault:
      "A listener sits in an open transaction, the server's notification queue fills, and enqueues fail.",
    outcome: "The listening session is never in a transaction.",
    seen: ["que-rb/que#229", "hasura/graphql-engine#6263"],
    tests: testsIn(
      "worker/wake-up.test.ts",
      "is in no transaction, whatever is enqueued, and so keeps no notification from being discarded",
    ),
    reason:
      "Another program's listener can still fill it; a check of its usage comes with operations. A notification is part of the enqueue's own statement: a connection that is cut there loses both.",
  },
  {
    id: "C54",
    fault:
      "The row or a list of ids travels in the notification, and beyond 8 kB the enqueue fails.",
    outcome: "A notification holds a worker's id, whatever was enqueued.",
    seen: ["saurabhnanda/odd-jobs#42", "ansible/awx#12999"],
    tests: testsIn(
      WAKING,
      "a large payload, long names and 10,000 jobs do not outgrow a notification",
    ),
  },
  {
    id: "C55",
    fault: "Tables or channels are named after queues and cut at 63 bytes: two queues become one.",
    outcome:
      "Queue and job names are data in rows; the names of tables are checked for their length.",
    seen: ["pgmq/pgmq#386", "pgmq/pgmq#141"],
    tests: [
      ...testsIn(
        "worker/names.test.ts",
        "keeps two queues apart whose first 63 bytes are the same",
        "runs a job called %j from a queue called the same",
      ),
      ...testsIn(
        "unit/create-queue-tables.test.ts",
        "makes no name that PostgreSQL would cut, even with the longest prefix",
      ),
    ],
  },
];
