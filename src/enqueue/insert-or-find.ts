import { QueueError } from "../errors.js";
import type { InsertedJob, NewJob } from "../queries/enqueue-parts.js";
import type { Executor } from "../queries/executor.js";
import { type InsertJobTemplates, insertJob } from "../queries/insert-job.js";
import { type InsertJobsTemplates, insertJobs } from "../queries/insert-jobs.js";
import type { Template } from "../queries/template.js";
import { withdrawJobs } from "../queries/withdraw-jobs.js";

/** The statements of enqueue, ready for one set of tables. */
export interface EnqueueStatements {
  readonly insertOne: InsertJobTemplates;
  readonly insertMany: InsertJobsTemplates;
  readonly withdraw: Template;
}

/**
 * How often a key may be taken and freed again under our hands before we give up.
 * Against a tight loop of deletes, every second round may be lost.
 */
const MAX_ROUNDS = 100;

/**
 * Inserts a job or finds the one that has its key.
 *
 * One statement. A second only where another transaction commits the same key
 * while we wait for it: the statement sees that job then, or inserts if it is
 * gone again.
 *
 * @throws {QueueError} `KEY_CONTENDED` when the key is taken and freed again over and over.
 */
export async function insertOrFind(
  executor: Executor,
  statements: EnqueueStatements,
  job: NewJob,
): Promise<InsertedJob> {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const answer = await insertJob(executor, statements.insertOne, job);
    if (answer !== undefined) return answer;
  }
  throw gaveUp();
}

/**
 * The same for jobs of which no two share a name and key, in their order.
 *
 * If one's key is taken by another input, none of them is inserted: the answer
 * holds that conflict, and may lack the others.
 *
 * @throws {QueueError} `KEY_CONTENDED` as above; none of them is inserted then.
 */
export async function insertOrFindMany(
  executor: Executor,
  statements: EnqueueStatements,
  jobs: readonly NewJob[],
): Promise<readonly (InsertedJob | undefined)[]> {
  let answers: readonly (InsertedJob | undefined)[] = [];
  let missing = jobs;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const found = await insertJobs(executor, statements.insertMany, missing);
    let next = 0;
    answers = jobs.map((_, place) => answers[place] ?? found[next++]);
    if (found.some((answer) => answer?.conflict)) break;
    missing = jobs.filter((_, place) => answers[place] === undefined);
    if (missing.length === 0) return answers;
  }
  // Those that an earlier round inserted.
  const ours = answers.flatMap((answer) => (answer?.created ? [answer.id] : []));
  await withdrawJobs(executor, statements.withdraw, ours);
  if (answers.some((answer) => answer?.conflict)) return answers;
  throw gaveUp();
}

const gaveUp = (): QueueError =>
  new QueueError(
    "KEY_CONTENDED",
    `An idempotency key was taken and freed ${MAX_ROUNDS} times. Try again.`,
  );
