import { eventError, type QueueEvent } from "../instrumentation/instrumentation.js";
import { checkTables } from "../queries/check-tables.js";
import { guardJob } from "../queries/guard-job.js";
import { explainingMissingTables } from "../queries/missing-tables.js";
import { workerRow } from "../queries/register-worker.js";
import { releaseStrays } from "../queries/release-strays.js";
import { renewLeases } from "../queries/renew-leases.js";
import { settleAndClaim } from "../queries/settle-and-claim.js";
import type { PgDatabase } from "../queries/transaction.js";
import type { JobMap } from "../registry/job-definition.js";
import type { TableNames } from "../schema/table-names.js";
import { createAlarm } from "./alarm.js";
import { createArrivals } from "./arrivals.js";
import { createClaimLoop } from "./claim-loop.js";
import { createClaimPlan } from "./claim-plan.js";
import { createCommit } from "./commit.js";
import { type Connection, createConnection } from "./connection.js";
import { watchAppPool } from "./drivers/app-pool.js";
import type { Driver } from "./drivers/driver.js";
import { transactOf } from "./drivers/transact.js";
import { isFatal } from "./fatal-error.js";
import { createHoldings } from "./holdings.js";
import { createLeaseKeeper } from "./lease-keeper.js";
import { createPausedQueues } from "./paused-queues.js";
import { createRunJob, resultText } from "./run-job.js";
import { type StopReport, stopRun } from "./stop-worker.js";
import { createUpkeep } from "./upkeep.js";
import { createWakeUp, type WakeUp } from "./wake-up.js";
import type { CheckedSettings } from "./worker-options.js";

/** How long a statement on the worker's own connections may take, in milliseconds. */
const STATEMENT_DEADLINE_MS = 10_000;

export interface RunOptions {
  readonly workerId: string;
  readonly tables: TableNames;
  readonly jobs: JobMap;
  readonly names: readonly string[];
  readonly settings: CheckedSettings;
  readonly maxResultBytes: number;
  readonly handlers: Readonly<Record<string, (context: never) => unknown>>;
  readonly db: PgDatabase;
  readonly driver: Driver;
  readonly emit: ((event: QueueEvent) => void) | undefined;
}

/** A worker between its start and its stop. */
export interface Run {
  start(): Promise<void>;
  stop(gracePeriodMs: number): Promise<StopReport>;
}

/** Wires the parts of a worker together. */
export function createRun(options: RunOptions): Run {
  const { workerId, tables, jobs, names, settings, emit } = options;
  const leases = leasesOf(jobs, names);
  const connect = (
    role: "main" | "renewal" | "listen",
    peer: () => Connection,
    deadlineMs = STATEMENT_DEADLINE_MS,
  ): Connection =>
    explainingMissingTables(
      createConnection({
        role,
        driver: options.driver,
        deadlineMs,
        throughPooler: settings.throughPooler,
        peer,
        emit,
      }),
      tables,
    );
  const unwatchAppPool = watchAppPool(
    (options.db as { readonly $client?: unknown }).$client,
    (error) => emit?.({ type: "connection.lost", role: "app", error: eventError(error) }),
  );
  const main: Connection = connect("main", () => listen);
  const listen: Connection = connect("listen", () => main);
  // An answer that comes after the lease has run out would be of no use.
  const renewalDeadlineMs = Math.min(STATEMENT_DEADLINE_MS, leases.shortestMs / 2);
  const renewal = connect("renewal", () => main, renewalDeadlineMs);

  const report = (statement: string, error: unknown, retryInMs = 0): void => {
    if (!isStopping)
      emit?.({
        type: "statement.errored",
        statement,
        error: eventError(error),
        retryInMs: Math.round(retryInMs),
      });
  };
  let isStopping = false;
  let loopEnded: Promise<void> | undefined;
  let wakeUp: WakeUp | undefined;

  const alarm = createAlarm();
  const arrivals = createArrivals();
  const holdings = createHoldings({
    concurrency: settings.concurrency,
    shortestLeaseMs: leases.shortestMs,
    retention: settings.retention.onDone,
    jobs,
    workerId,
    runJob: createRunJob({
      handlers: options.handlers,
      commit: createCommit({
        db: options.db,
        transact: transactOf(options.driver),
        guard: guardJob(tables, settings.retention.processedKeysMs),
        own: main,
        resultText: (held, result) => resultText(held, result, options.maxResultBytes),
      }),
      maxResultBytes: options.maxResultBytes,
      emit,
    }),
    yieldsTo: () => plan.yieldsTo(),
    isPaused: (queue) => pauses.isPaused(queue),
    onChange: () => loop.notice(),
    onClaimed: arrivals.observe,
    emit,
  });
  const pauses = createPausedQueues({
    workerId,
    queues: settings.queues,
    onPaused: holdings.withdraw,
    // Jobs that were given back at the pause lie below the floors: they had been claimed.
    onResumed: () => {
      plan.lookFar();
      alarm.ring();
    },
    emit,
  });
  const hasOtherConnection = options.driver.hasOwnConnections && !settings.throughPooler;
  const plan = createClaimPlan({
    workerId,
    queues: settings.queues,
    names,
    leaseMs: leases.commonMs,
    leaseMsByName: leases.exceptions,
    pollIntervalMs: settings.pollIntervalMs,
    hasOtherConnection,
    pollsClosely: () => wakeUp?.pollsClosely() ?? arrivals.isFrequent(),
    hasPausedQueues: () => pauses.open().length < settings.queues.length,
  });
  const settleAndClaimJobs = settleAndClaim(tables, settings.retention.processedKeysMs);
  const releaseStrayJobs = releaseStrays(tables);
  const loop = createClaimLoop({
    alarm,
    plan,
    settles: holdings.settles,
    send: (task) => settleAndClaimJobs(main, task),
    // It has little to do while there is much to settle; behind a pooler nobody listens on it.
    sendBeside: hasOtherConnection ? (task) => settleAndClaimJobs(listen, task) : undefined,
    isBesideFree: () => listen.isConnected() && !upkeep.isSlow(),
    releaseStrays: (pairs, asked) =>
      releaseStrayJobs(main, { workerId, pairs, asked, held: holdings.ids() }),
    room: holdings.room,
    onClaimed(answer, sentAtMs, claimedFor) {
      if (answer.paused !== undefined) pauses.learn(answer.paused, sentAtMs);
      // First: a handler that blocks the event loop at once is to be noticed too.
      if (answer.jobs.length > 0) keeper.watch();
      holdings.take(answer, sentAtMs, claimedFor);
    },
    emit,
  });
  const renew = renewLeases(tables);
  const keeper = createLeaseKeeper({
    held: holdings.all,
    renew: (held) => renew(renewal, held),
    onLost: holdings.lose,
    onTimedOut: holdings.timeOut,
    onCancelled: holdings.cancel,
    isIdle: holdings.isEmpty,
    onTick: holdings.freeStuck,
    onError: (error, retryInMs) => report("renew", error, retryInMs),
    emit,
  });
  const upkeep = createUpkeep({
    tables,
    retention: settings.retention,
    connection: hasOtherConnection ? listen : main,
    onError: (error, retryInMs) => report("prune", error, retryInMs),
    emit,
  });
  const row = workerRow(tables);
  const ringing = (tell: () => void) => (): void => {
    tell();
    alarm.ring();
  };

  const createListener = (): WakeUp =>
    createWakeUp({
      connection: listen,
      channel: tables.channel,
      openQueues: pauses.open,
      onPaused: pauses.learn,
      registration: {
        workerId,
        served: settings.queues,
        names,
        pollIntervalMs: settings.pollIntervalMs,
      },
      register: row.register,
      unregister: row.unregister,
      wantsNotifications: () => !arrivals.isFrequent() && holdings.room().free > 0,
      arrivalsAreFrequent: arrivals.isFrequent,
      onWake: ringing(plan.wake),
      onLook: ringing(plan.look),
      onError: (error, retryInMs) => report("listen", error, retryInMs),
    });

  return {
    async start() {
      await checkTables(tables)(main).catch((error: unknown) => {
        if (isFatal(error)) throw error;
        report("check tables", error);
      });
      if (isStopping) return;
      row.forgetDead(main).catch((error: unknown) => report("forget dead workers", error));
      if (!settings.throughPooler) {
        wakeUp = createListener();
        wakeUp.start();
      }
      loopEnded = loop.run();
      upkeep.start();
      emit?.({ type: "worker.started", workerId, queues: settings.queues, names });
    },
    async stop(gracePeriodMs) {
      isStopping = true;
      upkeep.stop();
      const stopReport = await stopRun({
        holdings,
        loop,
        loopEnded,
        keeper,
        close: async (timeoutMs) => {
          await Promise.all([
            main.close(timeoutMs),
            renewal.close(timeoutMs),
            wakeUp?.stop(timeoutMs) ?? listen.close(timeoutMs),
          ]);
        },
        gracePeriodMs,
      });
      unwatchAppPool();
      emit?.({ type: "worker.stopped", workerId, ...stopReport });
      return stopReport;
    },
  };
}

/** The lease that most jobs have, and those that differ from it. */
function leasesOf(jobs: JobMap, names: readonly string[]) {
  // In whole milliseconds, as the server takes them; never shorter than what the worker goes by.
  const of = names.map((name) => [name, Math.ceil(jobs[name]?.leaseMs ?? 0)] as const);
  const commonMs = of[0]?.[1] ?? 0;
  return {
    commonMs,
    exceptions: Object.fromEntries(of.filter(([, leaseMs]) => leaseMs !== commonMs)),
    shortestMs: Math.min(...of.map(([, leaseMs]) => leaseMs)),
  };
}
