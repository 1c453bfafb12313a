import { expect, test } from "vitest";
import type { Executor, Row } from "../../src/queries/executor.js";
import { tableNames } from "../../src/schema/table-names.js";
import { createDrain } from "../../src/testing/drain.js";
import { createDrainLog } from "../../src/testing/drain-log.js";
import { createAlarm } from "../../src/worker/alarm.js";

const served = { queues: ["default"], names: ["work"] };
const attempt = (jobId: number) => ({
  jobId,
  jobName: "work",
  queue: "default",
  attempt: 1,
  leaseVersion: 1,
});

/** A drain whose questions to the database are answered by the steps, one after the other. */
function drainWith(steps: readonly ((tell: Tell) => readonly Row[])[]) {
  const alarm = createAlarm();
  const log = createDrainLog(alarm.ring);
  const tell: Tell = {
    claimed: (id) => log.event({ type: "job.claimed", ...attempt(id), workerId: "w" }),
    done: (id) => log.event({ type: "job.done", ...attempt(id), durationMs: 1, by: "handler" }),
  };
  let asked = 0;
  const executor: Executor = {
    async run() {
      const step = steps[asked];
      asked += 1;
      if (step === undefined) throw new Error(`asked ${asked} times`);
      return step(tell);
    },
  };
  const worker = {
    id: "w",
    start: async () => undefined,
    stop: async () => ({ released: 0, abandoned: [] }),
    async [Symbol.asyncDispose]() {},
  };
  const tables = tableNames();
  const parts = { worker, executor, tables, served, log, alarm };
  const drain = createDrain({ ...parts, runsScheduled: false });
  return { drain, log, asked: () => asked };
}

interface Tell {
  claimed(id: number): void;
  done(id: number): void;
}

const left: readonly Row[] = [{ id: 1, name: "work", status: "queued", total: 1 }];

test("nothing left and nothing held is the end", async () => {
  const { drain, asked } = drainWith([() => []]);
  await drain.run();
  expect(asked()).toBe(1);
});

test("what is due is asked about again until it is gone", async () => {
  const { drain, asked } = drainWith([() => left, () => left, () => []]);
  await drain.run();
  expect(asked()).toBe(3);
});

test("a job that came and went while the database was asked may have left another", async () => {
  const { drain, asked } = drainWith([
    ({ claimed, done }) => {
      claimed(1);
      done(1);
      return [];
    },
    () => [],
  ]);
  await drain.run();
  expect(asked()).toBe(2);
});

test("a job that is held is waited for, whatever the database says, without asking again", async () => {
  let end = (): void => {};
  const { drain, asked } = drainWith([
    ({ claimed, done }) => {
      claimed(1);
      claimed(2);
      end = () => {
        done(1);
        setImmediate(() => done(2));
      };
      setImmediate(() => end());
      return [];
    },
    () => [],
  ]);
  await drain.run();
  expect(asked()).toBe(2);
});

test("one that nobody waits for any more ends", async () => {
  const { drain, log } = drainWith([
    ({ claimed }) => {
      claimed(1);
      setImmediate(() => drain.end());
      return left;
    },
  ]);
  await drain.run();
  expect(log.held()).toEqual([{ id: 1, name: "work", state: "running" }]);
});
