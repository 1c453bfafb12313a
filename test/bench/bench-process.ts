/**
 * A contender's process: opens one library and does what the benchmark asks,
 * so that the library's processor time and memory are a process's own.
 */
import { writeFile } from "node:fs/promises";
import { Session } from "node:inspector/promises";
import process from "node:process";
import type { Contender, ContenderOptions } from "./contender.js";

/** What the benchmark asks of a process. */
export interface Calls {
  install(): Promise<void>;
  seed(count: number): Promise<void>;
  drain(task: DrainTask): Promise<DrainResult>;
  /** Runs jobs until the process ends; `handled` and `startedAt` tell how it goes. */
  work(task: { readonly handlerMs: number }): Promise<void>;
  handled(): Promise<number>;
  /** When each job started, by its number, on the clock that all processes share. */
  startedAt(): Promise<readonly (number | null)[]>;
  /** Enqueues one job at a time at about this rate, numbered from 0. */
  produce(task: ProduceTask): Promise<readonly Produced[]>;
  /** Enqueues as many as `clients` callers can, each waiting for its own. */
  enqueueFor(task: { readonly clients: number; readonly forMs: number }): Promise<Timed>;
  /** The same as `seed`, timed. */
  seedTimed(count: number): Promise<Timed>;
  /** Processor time and memory of the process so far, after collecting garbage where that is allowed. */
  usage(): Promise<Usage>;
  stop(): Promise<void>;
}

export interface DrainTask {
  readonly jobs: number;
  /** How many of them only make warm: the clock starts behind them, or a second after the first. */
  readonly warmUp: number;
  /** How long a handler takes; 0 does nothing at all. */
  readonly handlerMs: number;
  /** Give up after this long: the rate is then that of what was done. */
  readonly capMs: number;
  /** Writes a processor profile of the drain to this file. */
  readonly profile?: string;
}

export interface ProduceTask {
  readonly count: number;
  readonly perSecond: number;
  /** Keeps the transaction open for 5 ms to this long before it commits. */
  readonly openMs?: number;
  /** Lets each job become due this long after the call. */
  readonly delayMs?: number;
}

/** When the call to enqueue was made and when it was answered, in milliseconds of the shared clock. */
export interface Produced {
  readonly calledAt: number;
  readonly dueAt: number;
  readonly committedAt: number;
}

export interface Timed {
  readonly count: number;
  readonly elapsedMs: number;
  readonly nodeCpuMs: number;
}

export interface DrainResult {
  /** Calls of the handler: more than the jobs there were means jobs run twice. */
  readonly handled: number;
  /** Those of the measured stretch. */
  readonly measured: number;
  readonly distinct: number;
  readonly isComplete: boolean;
  /** From the end of the warm-up until nothing was left to be settled, or the cap. */
  readonly elapsedMs: number;
  readonly startMs: number;
  readonly nodeCpuMs: number;
}

export interface Usage {
  readonly cpuMs: number;
  readonly rssBytes: number;
  readonly heapBytes: number;
}

const [modulePath = "", options = "{}"] = process.argv.slice(2);
const { open } = (await import(modulePath)) as { open(options: ContenderOptions): Contender };
const contender = open(JSON.parse(options));

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

async function drain({ jobs, warmUp, handlerMs, capMs, profile }: DrainTask): Promise<DrainResult> {
  const seen = new Uint8Array(jobs);
  let handled = 0;
  let firstMs = 0;
  let warm: { readonly ms: number; readonly cpuMs: number; readonly handled: number } | undefined;
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const count = (number: number): void => {
    if (firstMs === 0) firstMs = performance.now();
    if (warm === undefined && (handled >= warmUp || performance.now() - firstMs > 1_000)) {
      warm = { ms: performance.now(), cpuMs: cpuMs(), handled };
      process.send?.({ event: "warm" });
    }
    seen[number] = 1;
    handled += 1;
    if (handled >= jobs) finish();
  };
  const waits = async (number: number): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, handlerMs));
    count(number);
  };
  const stopProfile = profile === undefined ? undefined : await startProfile(profile);
  const beganMs = performance.now();
  const cap = setTimeout(finish, capMs);
  await contender.start(handlerMs === 0 ? count : waits);
  await finished;
  clearTimeout(cap);
  const isComplete = handled >= jobs;
  // The last outcomes are still on their way.
  while (isComplete && (await contender.isUnfinished()))
    await new Promise((resolve) => setTimeout(resolve, 2));
  const { ms, cpuMs: warmCpuMs, handled: before } = warm ?? { ms: 0, cpuMs: 0, handled: 0 };
  const result = {
    handled,
    measured: handled - before,
    isComplete,
    elapsedMs: performance.now() - ms,
    startMs: firstMs - beganMs,
    nodeCpuMs: cpuMs() - warmCpuMs,
  };
  await stopProfile?.();
  return { ...result, distinct: seen.reduce((sum, one) => sum + one, 0) };
}

async function startProfile(file: string): Promise<() => Promise<void>> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.setSamplingInterval", { interval: 200 });
  await session.post("Profiler.start");
  return async () => {
    const { profile } = await session.post("Profiler.stop");
    await writeFile(file, JSON.stringify(profile));
    session.disconnect();
  };
}

/** Monotonic, and the same in every process of the machine. */
const clockMs = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function timed(run: () => Promise<number>): Promise<Timed> {
  const [beganMs, beganCpuMs] = [performance.now(), cpuMs()];
  const count = await run();
  return { count, elapsedMs: performance.now() - beganMs, nodeCpuMs: cpuMs() - beganCpuMs };
}

/** Arrivals come at random, as they do: what comes in step may always meet the same phase of a poll. */
async function produce(task: ProduceTask): Promise<Produced[]> {
  const { count, perSecond, openMs, delayMs = 0 } = task;
  const { enqueue, enqueueLate, enqueueAt } = contender;
  if (enqueue === undefined) throw new Error("This contender cannot enqueue single jobs.");
  const beganMs = clockMs();
  let nextMs = 0;
  const one = async (number: number): Promise<Produced> => {
    const calledAt = clockMs();
    const dueAt = calledAt + delayMs;
    if (delayMs > 0) await enqueueAt?.(number, new Date(Date.now() + delayMs));
    else if (openMs === undefined) await enqueue(number);
    else await enqueueLate?.(number, 5 + Math.random() * (openMs - 5));
    return { calledAt, dueAt, committedAt: clockMs() };
  };
  const all: Promise<Produced>[] = [];
  for (let number = 0; number < count; number += 1) {
    nextMs += (-Math.log(1 - Math.random()) * 1_000) / perSecond;
    const waitMs = beganMs + nextMs - clockMs();
    if (waitMs > 0.5) await sleep(waitMs);
    all.push(one(number));
  }
  return Promise.all(all);
}

const startedAt: number[] = [];
let handledCount = 0;

const calls: Calls = {
  install: () => contender.install(),
  seed: (count) => contender.seed(count),
  drain,
  async work({ handlerMs }) {
    await contender.start((number) => {
      startedAt[number] = clockMs();
      handledCount += 1;
      return handlerMs === 0 ? undefined : sleep(handlerMs);
    });
  },
  handled: async () => handledCount,
  startedAt: async () => startedAt,
  produce,
  enqueueFor: ({ clients, forMs }) =>
    timed(async () => {
      const untilMs = performance.now() + forMs;
      let count = 0;
      const client = async (): Promise<void> => {
        while (performance.now() < untilMs) {
          count += 1;
          await contender.enqueue?.(count);
        }
      };
      await Promise.all(Array.from({ length: clients }, client));
      return count;
    }),
  seedTimed: (count) =>
    timed(async () => {
      await contender.seed(count);
      return count;
    }),
  async usage() {
    globalThis.gc?.();
    const { rss, heapUsed } = process.memoryUsage();
    return { cpuMs: cpuMs(), rssBytes: rss, heapBytes: heapUsed };
  },
  stop: () => contender.stop(),
};

process.on(
  "message",
  ({ id, name, argument }: { id: number; name: keyof Calls; argument: never }) => {
    calls[name](argument).then(
      (value) => process.send?.({ id, value }),
      (error: unknown) => process.send?.({ id, error: String((error as Error).stack ?? error) }),
    );
  },
);
process.once("disconnect", () => process.exit());
process.send?.({ event: "ready" });
