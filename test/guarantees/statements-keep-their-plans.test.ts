import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ClaimRequest } from "../../src/queries/claim-request.js";
import type { Executor, Row, Statement } from "../../src/queries/executor.js";
import { guardJob } from "../../src/queries/guard-job.js";
import { oldJobs, oldProcessedKeys } from "../../src/queries/prune-rows.js";
import { releaseStrays } from "../../src/queries/release-strays.js";
import { renewLeases } from "../../src/queries/renew-leases.js";
import { type SettleAndClaim, settleAndClaim } from "../../src/queries/settle-and-claim.js";
import type { Settlement } from "../../src/queries/settle-jobs.js";
import { tableNames } from "../../src/schema/table-names.js";
import { createConnection } from "../../src/worker/connection.js";
import { driverOf } from "../../src/worker/drivers/driver-of.js";
import { createDatabase, type TestDatabase } from "../support/database.js";

/** Rows of the table: finished ones, due ones, delayed ones, and those that somebody runs. */
const ROWS = 1_000_000;
const RUNNING = 1_000;
/** How many rows a statement may look at: what it was asked for, and the running ones that a sweep steps over. */
const MOST_ROWS = RUNNING + 1_000;
/** A search for strays looks at 2,000 rows of each queue and priority, and those it asked for and holds; it follows a lost answer only. */
const MOST_ROWS_OF_A_SEARCH = 20 * 2_200 + 2_000;

/** A million rows take their time, and the server is not ours alone. */
const LONG = { timeout: 180_000 };

const tables = tableNames();
const DAY_MS = 86_400_000;
/** Of done jobs, and of processed keys: half of the largest batch, since each row is found twice. */
const OLD_IDS = Array.from({ length: 500 }, (_, index) => index + 1);
const ends: Settlement = {
  way: "end",
  status: "queued",
  delayMs: 1_000,
  isUncounted: false,
  error: '{"attempt":1,"at":null,"code":null,"name":"Error","message":"x","stack":null}',
  errorLine: "Error: x",
  result: null,
};
const SETTLEMENTS: readonly Settlement[] = [
  { way: "complete" },
  { way: "remove" },
  { way: "discard" },
  ends,
];

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
  // Statistics are as stale as this test makes them.
  await database.pool.query("alter table queue_jobs set (autovacuum_enabled = false)");
  await database.pool.query("alter table queue_processed_keys set (autovacuum_enabled = false)");
});

afterAll(() => database.drop());

/** A session exactly as a worker's, which remembers its last statement. */
function openSession() {
  const pool = new pg.Pool({ connectionString: database.url });
  const connection = createConnection({
    role: "main",
    driver: driverOf("test", drizzle(pool)),
    deadlineMs: 60_000,
    throughPooler: false,
    peer: undefined,
    emit: undefined,
  });
  const sent: Statement[] = [];
  const executor: Executor = {
    run(statement): Promise<readonly Row[]> {
      sent.push(statement);
      return connection.run(statement);
    },
  };
  return { connection, executor, sent };
}

type Session = ReturnType<typeof openSession>;

/** Every statement that a worker repeats while it works, run once; whatever it changes is rolled back. */
const STATEMENTS: readonly (readonly [
  string,
  (executor: Executor, ids: readonly number[]) => Promise<unknown>,
])[] = [
  ["claim", (executor) => run(executor, { items: [], request: request() })],
  [
    "claim under backlog",
    (executor) => run(executor, { items: [], request: { ...request(), hasBacklog: true } }),
  ],
  [
    "claim above a floor",
    (executor) => run(executor, { items: [], request: request({ floorAgoMs: 60_000 }) }),
  ],
  ["claim promptly", (executor) => run(executor, { items: [], request: promptRequest() })],
  [
    "near sweep",
    (executor) =>
      run(executor, { items: [], request: request({ floorAgoMs: 1_000, reachMs: 10_000 }) }),
  ],
  [
    "sweep from the beginning",
    (executor) => run(executor, { items: [], request: request({ reachMs: null }) }),
  ],
  ...SETTLEMENTS.flatMap((settlement) =>
    [undefined, request(), request({ reachMs: null })].map(
      (claim, index) =>
        [
          `settle: ${settlement.way}${["", " and claim", " and sweep"][index]}`,
          (executor: Executor, ids: readonly number[]) =>
            run(executor, { items: itemsOf(ids, settlement), request: claim }),
        ] as const,
    ),
  ),
  [
    "settle: every way at once",
    (executor, ids) =>
      run(executor, {
        items: ids.map((id, index) => item(id, SETTLEMENTS[index % SETTLEMENTS.length] ?? ends)),
        request: request(),
      }),
  ],
  [
    "renew",
    (executor, ids) =>
      renewLeases(tables)(
        executor,
        ids.map((id) => ({ id, leaseVersion: 1, leaseMs: 30_000 })),
      ),
  ],
  ...[true, false].map(
    (hasKey) =>
      [
        hasKey ? "guard with a key" : "guard",
        (executor: Executor, ids: readonly number[]) =>
          guardJob(tables)(executor, { id: ids[0] ?? 0, leaseVersion: 1, hasKey, result: null }),
      ] as const,
  ),
  ...(
    [
      ["jobs", oldJobs(tables, "done", 60_000)],
      ["processed keys", oldProcessedKeys(tables)],
    ] as const
  ).flatMap(([what, rows]) => [
    [`find old ${what}`, (executor: Executor) => rows.find(executor, null, 1_000)] as const,
    [
      `find more old ${what}`,
      (executor: Executor) =>
        rows.find(executor, { id: 1, atUs: (Date.now() - DAY_MS) * 1_000 }, 1_000),
    ] as const,
    [`prune ${what}`, (executor: Executor) => rows.remove(executor, OLD_IDS)] as const,
  ]),
  [
    "release strays",
    (executor, ids) =>
      releaseStrays(tables)(executor, {
        workerId: "w",
        pairs: request().pairs,
        asked: 100,
        held: ids,
      }),
  ],
];

const prepared = settleAndClaim(tables);

const run = (executor: Executor, task: SettleAndClaim): Promise<unknown> =>
  prepared(executor, task);

const item = (id: number, settlement: Settlement) => ({
  id,
  leaseVersion: 1,
  settlement,
  recordsKey: settlement.way === "complete" || settlement.way === "remove",
});
const itemsOf = (ids: readonly number[], settlement: Settlement) =>
  ids.map((id) => item(id, settlement));

function request(options: { floorAgoMs?: number; reachMs?: number | null } = {}): ClaimRequest {
  const { floorAgoMs, reachMs } = options;
  const floor =
    floorAgoMs === undefined ? null : { atUs: (Date.now() - floorAgoMs) * 1_000, id: 0 };
  const priorities = Array.from({ length: 10 }, (_, priority) => priority);
  return {
    workerId: "w",
    pairs: priorities.flatMap((priority) =>
      ["default", "other"].map((queue) => ({ queue, priority, floor })),
    ),
    names: ["note", "report"],
    free: 20,
    ahead: 80,
    leaseMs: 30_000,
    leaseMsByName: { report: 60_000 },
    sweep: reachMs === undefined ? undefined : { reachMs, exclusive: true, suspects: 1 },
    peeks: true,
    hasBacklog: false,
    isPrompt: false,
  };
}

const promptRequest = (): ClaimRequest => ({
  ...request({ floorAgoMs: 60_000 }),
  ahead: 0,
  peeks: false,
  isPrompt: true,
});

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Rows Removed by Index Recheck"?: number;
  readonly "Shared Hit Blocks": number;
  readonly "Shared Read Blocks": number;
  readonly Plans?: readonly PlanNode[];
}

let explained = 0;

/** Explains the last statement as this session has prepared it, with its cached plan and its values. */
async function explainLast({ connection, sent }: Session): Promise<PlanNode> {
  const { name, values } = sent.at(-1) ?? { name: "", values: [] };
  const list = values
    .map((value) => (value === null ? "null" : pg.escapeLiteral(String(value))))
    .join(", ");
  explained += 1;
  const rows = await connection.run({
    name: `explain_${explained}`,
    text: `explain (analyze, buffers, format json) execute "${name}"${list === "" ? "" : `(${list})`}`,
    values: [],
  });
  const [row] = rows as readonly {
    readonly "QUERY PLAN": readonly [{ readonly Plan: PlanNode }];
  }[];
  if (row === undefined) throw new Error("EXPLAIN gave no plan.");
  return row["QUERY PLAN"][0].Plan;
}

function nodesOf(plan: PlanNode): readonly PlanNode[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
}

/** What a plan read, in the terms of the promise. */
function reading(plan: PlanNode) {
  const scans = nodesOf(plan).filter(
    (node) => node["Relation Name"]?.startsWith("queue_") && /Scan/.test(node["Node Type"]),
  );
  return {
    wholeTables: scans
      .filter((node) => node["Node Type"] === "Seq Scan")
      // A row for each queue that is paused now: a claim wants them all.
      .filter((node) => node["Relation Name"] !== "queue_controls")
      .map((node) => node["Relation Name"]),
    rows: scans.reduce((sum, node) => {
      const each =
        node["Actual Rows"] +
        (node["Rows Removed by Filter"] ?? 0) +
        (node["Rows Removed by Index Recheck"] ?? 0);
      return sum + each * node["Actual Loops"];
    }, 0),
    pages: plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
  };
}

/** Runs each statement and tells which ones read more than they were asked for. */
async function offenders(session: Session): Promise<readonly unknown[]> {
  const ids = await runningIds();
  const found: unknown[] = [];
  for (const [what, send] of STATEMENTS) {
    await session.connection.run({ name: "begin", text: "begin", values: [] });
    await send(session.executor, ids);
    await session.connection.run({ name: "rollback", text: "rollback", values: [] });
    await session.connection.run({ name: "begin", text: "begin", values: [] });
    const read = reading(await explainLast(session));
    await session.connection.run({ name: "rollback", text: "rollback", values: [] });
    const mostRows = what === "release strays" ? MOST_ROWS_OF_A_SEARCH : MOST_ROWS;
    if (read.wholeTables.length > 0 || read.rows > mostRows || read.pages > 5 * mostRows)
      found.push({ what, ...read });
  }
  return found;
}

async function runningIds(): Promise<readonly number[]> {
  const sql =
    "select id from queue_jobs where status = 'running' and locked_by = 'w' order by id limit 100";
  const ids = (await database.pool.query<{ id: string }>(sql)).rows.map(({ id }) => Number(id));
  // On the empty table any will do: the text and its plan are the same.
  return ids.length > 0 ? ids : Array.from({ length: 100 }, (_, index) => index + 1);
}

/** Finished 700,000 · due and delayed the rest, but for those that run. */
async function fill(): Promise<void> {
  await database.pool.query(
    `insert into queue_jobs (queue, name, payload, priority, status, outcome, finished_at, available_at,
         attempts, lease_version, lease_until, locked_by, idempotency_key, input_hash)
       select case when n % 3 = 0 then 'other' else 'default' end, case when n % 2 = 0 then 'note' else 'report' end,
         '{}', n % 10, status, case when status = 'done' then 'done' end,
         case when status = 'done' then statement_timestamp() + (n - 400000) * interval '1 second' end,
         statement_timestamp() + (n - 900000) * interval '20 ms',
         (status <> 'queued')::int, (status <> 'queued')::int,
         case when status = 'running' then statement_timestamp() + interval '1 hour' end,
         case when status = 'running' then 'w' end,
         case when n % 5 = 0 then 'key ' || n end, case when n % 5 = 0 then 'x'::bytea end
       from (
         select n, case when n <= 700000 then 'done' when n <= 700000 + ${RUNNING} then 'running' else 'queued' end as status
         from generate_series(1, ${ROWS}) as n
       ) as given`,
  );
  await database.pool.query(
    `insert into queue_processed_keys (name, idempotency_key, job_id, input_hash, expires_at)
       select name, idempotency_key, id, input_hash, finished_at from queue_jobs where idempotency_key is not null and status = 'done'`,
  );
}

describe("with a million rows no statement of a worker reads a whole table or walks what it was not asked for", () => {
  const sessions: Session[] = [];
  const open = (): Session => {
    const session = openSession();
    sessions.push(session);
    return session;
  };
  afterAll(() => Promise.all(sessions.map(({ connection }) => connection.close(1_000))));
  let early: Session;

  test("when it was planned on an empty, analysed table", LONG, async () => {
    await database.pool.query("analyze queue_jobs, queue_processed_keys, queue_workers");
    early = open();
    expect(await offenders(early)).toEqual([]);
    await fill();
    expect(await offenders(early)).toEqual([]);
  });

  test("when it is planned under statistics that still say empty", LONG, async () => {
    expect(await offenders(open())).toEqual([]);
  });

  test("when it is planned under fresh statistics", LONG, async () => {
    await database.pool.query("analyze queue_jobs, queue_processed_keys");
    expect(await offenders(early)).toEqual([]);
    expect(await offenders(open())).toEqual([]);
  });

  test("when the statistics know nothing of the rows that are due", LONG, async () => {
    await database.pool.query(
      "update queue_jobs set blockers = 1 where finished_at is null and status = 'queued'",
    );
    await database.pool.query("analyze queue_jobs");
    await database.pool.query("update queue_jobs set blockers = 0 where blockers = 1");
    expect(await offenders(early)).toEqual([]);
    expect(await offenders(open())).toEqual([]);
  });
});
