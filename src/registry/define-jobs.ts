import { QueueError } from "../errors.js";
import { DEFINITION, type JobDefinition, type JobMap } from "./job-definition.js";
import { checkText, invalidOption, isObject } from "./option-checks.js";

/**
 * Names the jobs of an app: each key is the name of its definition.
 *
 * The map that comes back is frozen and has no prototype, so a job may have
 * any name, `constructor` among them.
 *
 * @throws {QueueError} `INVALID_OPTION` when a name or a definition is not valid.
 * @example
 * export const jobs = defineJobs({
 *   report: defineJob({ payload: z.object({ reportId: z.uuid() }) }),
 * });
 */
export function defineJobs<const M extends JobMap>(jobs: M): M {
  if (!isObject(jobs)) throw invalidOption("jobs", "an object", jobs);
  const prototype: object | null = Object.getPrototypeOf(jobs);
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    // `{ __proto__: definition }` sets the prototype: the job would be lost without a word.
    throw new QueueError(
      "INVALID_OPTION",
      'defineJobs() must be a plain object. Write the job __proto__ as ["__proto__"].',
    );
  }
  const map: Record<string, JobDefinition> = Object.create(null);
  for (const [name, definition] of Object.entries(jobs)) {
    checkText("defineJobs(): a job's name", name);
    if ((definition as JobDefinition | undefined)?.[DEFINITION] !== true) {
      throw invalidOption(`defineJobs(): job "${name}"`, "made by defineJob()", definition);
    }
    map[name] = definition;
  }
  return Object.freeze(map) as M;
}

/**
 * Finds a definition by name.
 *
 * @throws {QueueError} `UNKNOWN_JOB` when the map has none.
 */
export function definitionOf(jobs: JobMap, name: string): JobDefinition {
  const definition = typeof name === "string" ? jobs[name] : undefined;
  if (definition !== undefined) return definition;
  const shown = typeof name === "string" ? JSON.stringify(name.slice(0, 128)) : typeof name;
  throw new QueueError("UNKNOWN_JOB", `Job ${shown} is not defined. Add it to defineJobs().`);
}
