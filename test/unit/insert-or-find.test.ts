import { expect, test } from "vitest";
import { insertOrFindMany } from "../../src/enqueue/insert-or-find.js";
import type { NewJob } from "../../src/queries/enqueue-parts.js";
import type { Row, Statement } from "../../src/queries/executor.js";
import { insertJobTemplates } from "../../src/queries/insert-job.js";
import { insertJobsTemplates } from "../../src/queries/insert-jobs.js";
import { withdrawJobsTemplate } from "../../src/queries/withdraw-jobs.js";
import { tableNames } from "../../src/schema/table-names.js";

const tables = tableNames();
const statements = {
  insertOne: insertJobTemplates(tables),
  insertMany: insertJobsTemplates(tables),
  withdraw: withdrawJobsTemplate(tables),
};
const job = (idempotencyKey: string): NewJob => ({
  name: "report",
  queue: "default",
  priority: 5,
  maxAttempts: 10,
  runAt: null,
  delayMs: 0,
  idempotencyKey,
  payload: "1",
  input: null,
});

/** Answers with one row after the other, at the end with the last one again. */
function createExecutor(answers: readonly Row[]) {
  const sent: Statement[] = [];
  return {
    sent,
    run: async (statement: Statement): Promise<readonly Row[]> => {
      const answer = answers[Math.min(sent.length, answers.length - 1)] ?? {};
      sent.push(statement);
      return [answer];
    },
  };
}

test("a batch whose second key is always freed again leaves none of its jobs", async () => {
  const executor = createExecutor([
    { drawn: "7,", known: null },
    { drawn: "", known: null },
  ]);
  await expect(insertOrFindMany(executor, statements, [job("a"), job("b")])).rejects.toMatchObject({
    code: "KEY_CONTENDED",
  });
  expect(executor.sent.at(-1)).toMatchObject({
    name: "drizzle_queue_withdraw_jobs",
    values: ["{7}"],
  });
});

test("a batch whose second key turns out to be in conflict leaves none of its jobs", async () => {
  const executor = createExecutor([
    { drawn: "7,", known: null },
    { drawn: "", known: JSON.stringify([[0, 5, "queued", true]]) },
  ]);
  const [first, second] = await insertOrFindMany(executor, statements, [job("a"), job("b")]);
  expect([first?.created, second?.conflict]).toEqual([true, true]);
  expect(executor.sent.map(({ name }) => name)).toEqual([
    "drizzle_queue_insert_keyed_jobs",
    "drizzle_queue_insert_keyed_jobs",
    "drizzle_queue_withdraw_jobs",
  ]);
});
