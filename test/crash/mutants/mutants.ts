import type { Mutant } from "./mutant.js";

const CLAIM = "queries/claim-jobs.ts";
const CLAIM_REQUEST = "queries/claim-request.ts";
const COMMIT = "worker/commit.ts";

/** The processed key is written by a statement of its own, before the transaction ends. */
const KEY_FIRST = `
  await own.run({ name: "mutant_key", values: [id], text:
    'insert into public.queue_processed_keys (name, idempotency_key, job_id, input_hash, processed_at) ' +
    'select name, idempotency_key, id, input_hash, statement_timestamp() from public.queue_jobs ' +
    'where id = $1::bigint and idempotency_key is not null on conflict do nothing' });`;

/** Faults at fences and atomicity: each is to be seen in a T0 run. */
export const FENCE_MUTANTS: readonly Mutant[] = [
  {
    name: "a commit completes its job whatever the version",
    changes: [
      ["queries/guard-job.ts", "and lease_version = $version::int and status", "and status"],
    ],
    expects: ["F1", "I6", "I3"],
  },
  {
    name: "the worker settles jobs whatever the version",
    changes: [
      ["queries/settle-jobs.ts", "and lease_version = item.version and ${state}", "and ${state}"],
    ],
    expects: ["F1", "I3", "I6"],
  },
  {
    name: "a lease is renewed whatever the version",
    changes: [
      ["queries/renew-leases.ts", "and lease_version = item.version and status", "and status"],
      [
        "queries/renew-leases.ts",
        "and job.lease_version = lease.version and job.status",
        "and job.status",
      ],
    ],
    expects: ["F1"],
  },
  {
    name: "a sweep takes running jobs whose lease is valid",
    changes: [
      [CLAIM, "((select is_on from sweep) and lease_until <= statement_timestamp())", "true"],
    ],
    expects: ["F2"],
  },
  {
    name: "effect and completion are two transactions",
    changes: [
      [
        COMMIT,
        "complete(options, held, drizzleExecutor(tx), result)",
        "complete(options, held, options.own, result)",
      ],
    ],
    expects: ["I6", "I3"],
  },
];

/** Others: some show in a T0 run with luck, all of them in a few. */
export const OTHER_MUTANTS: readonly Mutant[] = [
  {
    name: "the processed key is recorded outside of the transaction",
    changes: [
      [
        COMMIT,
        "  { guard, resultText }: CommitOptions,",
        "  { guard, resultText, own }: CommitOptions,",
      ],
      [COMMIT, "  const answer = await guard(", `${KEY_FIRST}\n  const answer = await guard(`],
      ["queries/guard-job.ts", "exists (select from recorded) as recorded", "true as recorded"],
    ],
    expects: ["I3", "I11"],
  },
  {
    name: "a commit is accepted after its lease has run out",
    changes: [["queries/guard-job.ts", "and lease_until > statement_timestamp()", ""]],
    expects: ["F1"],
  },
  {
    name: "a lease that has run out is renewed",
    changes: [["queries/renew-leases.ts", "        and lease_until > statement_timestamp()\n", ""]],
    expects: ["F1"],
  },
  {
    name: "outcomes are settled after the lease has run out",
    changes: [
      [
        "queries/settle-jobs.ts",
        "`status = 'running' and lease_until > statement_timestamp()`",
        "`status = 'running'`",
      ],
    ],
    expects: ["F1"],
  },
  {
    name: "recovery keeps the version",
    changes: [
      [
        CLAIM,
        "lease_version = lease_version + 1, locked_by = $worker, started_at = statement_timestamp(),\n      last_error",
        "locked_by = $worker, started_at = statement_timestamp(),\n      last_error",
      ],
    ],
    expects: ["F1", "I9"],
  },
  {
    name: "attempts are counted at the failure, not at the claim",
    changes: [
      [CLAIM, "attempts = attempts + 1, lease_until", "lease_until"],
      [CLAIM, "attempts = attempts + (${goesOn})::int", "attempts = attempts"],
    ],
    expects: ["I9", "I5"],
  },
  {
    name: "an exhausted job runs on",
    changes: [
      [CLAIM, "attempts < max_attempts and cancel_requested_at", "cancel_requested_at"],
      [
        CLAIM,
        "attempts = attempts + (${goesOn})::int",
        "attempts = least(attempts + (${goesOn})::int, max_attempts)",
      ],
    ],
    expects: ["I5", "I9"],
  },
  {
    name: "leases end by the client's clock",
    changes: [
      [
        CLAIM,
        "\n  statement_timestamp() + interval '1 millisecond'",
        "\n  to_timestamp($client_ms::float8 / 1000) + interval '1 millisecond'",
      ],
      [
        CLAIM_REQUEST,
        "    worker: request.workerId,",
        "    worker: request.workerId, client_ms: Date.now(),",
      ],
    ],
    expects: ["I12", "F1", "F2"],
  },
  {
    name: "a renewal does not tell that somebody asks for the job's end",
    changes: [["queries/renew-leases.ts", "where cancel_requested_at is not null", "where false"]],
    expects: ["C1"],
  },
  {
    name: "an errored attempt is followed by another, asked to end or not",
    changes: [
      [
        "queries/settle-jobs.ts",
        "when job.cancel_requested_at is not null and",
        "when job.id is null and",
      ],
    ],
    expects: ["C1", "I9"],
  },
  {
    name: "what was held is not let go of",
    changes: [
      ["worker/holdings.ts", "if (byId.get(held.job.id) === held) byId.delete(held.job.id);", ""],
    ],
    // The held suspect that it believes in keeps it from taking another.
    expects: ["I15", "I12"],
  },
  {
    name: "what was held is kept in a list besides",
    changes: [
      [
        "worker/holdings.ts",
        "const byId = new Map",
        "const kept: HeldJob[] = []; const byId = new Map",
      ],
      [
        "worker/holdings.ts",
        "byId.set(job.id, taken);",
        "byId.set(job.id, taken); kept.push(taken);",
      ],
    ],
    expects: ["I15"],
  },
  {
    name: "an idle worker polls as a busy one does",
    changes: [
      ["worker/claim-plan.ts", ": jittered(options.pollIntervalMs);", ": jittered(CLOSE_POLL_MS);"],
    ],
    expects: ["I15"],
  },
  {
    name: "claims do not lock what they choose",
    changes: [[CLAIM, "for no key update skip locked", ""]],
    expects: ["F2"],
  },
  {
    name: "an error given back uses no attempt",
    changes: [
      [
        "worker/settlement.ts",
        'delayMs: outcome.delayMs });\n    case "fail"',
        'delayMs: outcome.delayMs, isUncounted: true });\n    case "fail"',
      ],
    ],
    expects: ["I12", "I5"],
  },
  {
    name: "a batch of outcomes is dropped on a transient error",
    changes: [["worker/settle-buffer.ts", "waiting.unshift(...batch);", ""]],
    expects: ["I12"],
  },
  {
    name: "nobody listens to errors of the app pool's connections in use",
    changes: [
      ["worker/drivers/app-pool.ts", 'client.on("error",', 'void (() => client).call("error",'],
    ],
    expects: ["I13", "I14"],
  },
  {
    name: "nobody listens to errors of the worker's own connections",
    changes: [["worker/drivers/node-postgres.ts", 'client.on("error", lose);', ""]],
    expects: ["I13", "I14"],
  },
  {
    name: "statements have no deadline",
    changes: [
      [
        "worker/deadline.ts",
        "return await Promise.race([promise, deadline]);",
        "deadline.catch(() => undefined); return await promise;",
      ],
      [
        "worker/lost-answer.ts",
        "return await Promise.race([answer, lost]);",
        "lost.catch(() => undefined); return await answer;",
      ],
    ],
    expects: ["L1", "I12"],
  },
  {
    name: "the claim loop ends at its first error",
    changes: [["worker/claim-loop.ts", "if (!goesOn) fail(", "isOver = true; if (!goesOn) fail("]],
    expects: ["L1", "I12"],
  },
];
