import { type FieldFault, testsIn } from "./fault.js";

/** B: connections, failover, settings of the server. */
export const CONNECTIONS: readonly FieldFault[] = [
  {
    id: "B24",
    fault:
      "The server ends an idle session, the driver emits an error that nobody listens to, and the process ends.",
    outcome: "A worker lives, reports it and works again, with nobody listening to anything.",
    seen: ["timgit/pg-boss#365", "brianc/node-postgres#1165"],
    tests: testsIn(
      "worker/connections.test.ts",
      "lives through thirty rounds of it, and has each effect once",
    ),
    reason:
      "A process that only enqueues owns its pool alone and has to listen itself, as [promise 6](guarantees.md#6-the-process-stays-up) says.",
  },
  {
    id: "B26",
    fault: "The listening connection is cut off without a word: deaf, and taken for healthy.",
    outcome:
      "A ping over the channel itself finds out, and it is replaced within 30 s; polling goes on behind it.",
    seen: ["timgit/pg-boss#850", "OCA/queue#246"],
    tests: testsIn(
      "worker/wake-up.test.ts",
      "hears nothing any more, though nobody ended it, is replaced within 30 s",
      "was told to UNLISTEN notices it by itself, listens again and looks",
    ),
  },
  {
    id: "B27",
    fault:
      "Packets are swallowed in the middle of a query: its promise never settles, and the loop that awaits it stands still.",
    outcome:
      "Every statement of the worker has a deadline of its own, and on node-postgres another connection asks after it before; every commit has a watch. The connection is dropped and made anew.",
    seen: ["brianc/node-postgres#3399", "porsager/postgres#1089", "riverqueue/river#1251"],
    tests: [
      ...testsIn(
        "worker/connections.test.ts",
        "tells its handlers in time, and works again once it is healed",
      ),
      ...testsIn(
        "worker/lost-answers.test.ts",
        "a claim that is lost on the way (heard: %s) does not take the whole deadline, nor an attempt",
      ),
      ...testsIn(
        "worker/half-open-commits.test.ts",
        "on $driver a commit without a timeout whose connection falls silent $when gives back its slot; the effect is there once",
      ),
    ],
  },
  {
    id: "B29",
    fault:
      "What a server says while it goes down or comes up is taken for final, and workers give up.",
    outcome:
      "They wait and work again within seconds; nothing acknowledged is lost and no effect is there twice.",
    seen: ["https://github.com/graphile/worker/blob/main/RELEASE_NOTES.md"],
    tests: testsIn(
      "guarantees/a-server-restart-loses-nothing.test.ts",
      "loses no acknowledged job, has each effect once, and work goes on by itself",
    ),
  },
  {
    id: "B30",
    fault: "All workers connect at once and exceed max_connections.",
    outcome:
      "Three connections for each process whatever its concurrency; refused ones try again with jitter.",
    seen: ["graphile/worker#564", "que-rb/que#316"],
    tests: [
      ...testsIn(
        "worker/connections.test.ts",
        "wait for a free one with growing patience, and all jobs are done",
      ),
      ...testsIn(
        "worker/core-on-both-drivers.test.ts",
        "opens three connections with a session of their own, and closes them at its stop",
      ),
    ],
  },
  {
    id: "B31",
    fault:
      "Handlers hold every connection of the pool while the queue waits for one to renew or complete.",
    outcome: "Renewals and completions have connections of their own; a pool of one is enough.",
    seen: ["graphile/worker#497", "cybertec-postgresql/pg_timetable#218"],
    tests: [
      ...testsIn(
        "worker/connections.test.ts",
        "renews and completes while handlers wait for that one",
      ),
      ...testsIn("worker/commit.test.ts", "works when the app's pool has a single connection"),
    ],
  },
  {
    id: "B32",
    fault:
      "A connection that is made after its deadline is kept and never used; such sessions pile up.",
    outcome:
      "Late ones are dropped; after any number of losses there is one session for each purpose.",
    seen: ["brianc/node-postgres#3721", "riverqueue/river#1147"],
    tests: [
      ...testsIn(
        "unit/worker/connection.test.ts",
        "connections that are made after their time are dropped, however many",
      ),
      ...testsIn(
        "unit/worker/postgres-js.test.ts",
        "connecting to a proxy that accepts and hangs up is given up after its time, and nothing goes on",
      ),
      ...testsIn("worker/wake-up.test.ts", "was ended ten times has one session, and still hears"),
    ],
  },
  {
    id: "B34",
    fault:
      "A pooler in transaction mode moves statements between sessions: named statements, locks and LISTEN break.",
    outcome: "With `throughPooler` everything works by polling, without any state of a session.",
    seen: ["graphile/worker#119", "bensheldon/good_job#52", "porsager/postgres#547"],
    tests: testsIn(
      "worker/through-pgbouncer.test.ts",
      "two workers do every job once, renew, retry, and find what arrives later",
    ),
  },
  {
    id: "B35",
    fault:
      "The pool recycles the listener's connection, or a reconnect subscribes twice or not at all.",
    outcome:
      "The listener's connection is in no pool; after ten forced ends there is one session, and it hears.",
    seen: ["riverqueue/river#661"],
    tests: testsIn(
      "worker/wake-up.test.ts",
      "was ended ten times has one session, and still hears",
    ),
  },
  {
    id: "B36",
    fault: "Jobs that come while the listener is away wait for the next slow poll.",
    outcome: "After each new LISTEN the worker looks once.",
    seen: ["timgit/pg-boss#851"],
    tests: testsIn(
      "worker/wake-up.test.ts",
      "was ended listens again, and looks for what it missed",
    ),
  },
];
