import type pg from "pg";
import { historiesOf, type JobHistory } from "../checker/history.js";
import { effectsAreTheHoldersOwn, effectsHappenOnce } from "../checker/invariants/effects.js";
import {
  leasesAreRespected,
  onlyHoldersWrite,
  versionsGrow,
} from "../checker/invariants/versions.js";
import type { AuditEntry, EffectEntry } from "../ledger/entries.js";
import { auditQuery, effectsQuery } from "../ledger/export-ledger.js";
import type { Ledger } from "../ledger/read-ledger.js";
import { told } from "./producer.js";

/** The invariants that a single job's trail can violate. */
const INVARIANTS = [
  effectsHappenOnce,
  effectsAreTheHoldersOwn,
  versionsGrow,
  onlyHoldersWrite,
  leasesAreRespected,
];

/** Says what is wrong after the actors have taken their steps, and empties the ledger. */
export async function judgeOrder(watcher: pg.Client, key: string): Promise<string[]> {
  const rows = async <T extends object>(text: string): Promise<T[]> =>
    (await watcher.query<T & pg.QueryResultRow>(text)).rows.map((row) => ({
      ...row,
      jobId: Number((row as { readonly jobId?: unknown }).jobId),
    }));
  const ledger = {
    audit: await rows<AuditEntry>(auditQuery),
    effects: await rows<EffectEntry>(effectsQuery("effects")),
    outside: await rows<EffectEntry>(effectsQuery("outside")),
    attempts: [],
  } as unknown as Ledger;
  const histories = historiesOf(ledger);
  const violations = INVARIANTS.flatMap((invariant) => {
    const { id, violations: found } = invariant(ledger, histories);
    return found.map((violation) => `${id} ${violation}`);
  });
  return [...violations, ...unfinished(histories), ...wrongKeys(histories, key)];
}

/** After whoever cleans up has run, nothing is left to run. */
const unfinished = (histories: ReadonlyMap<number, JobHistory>): string[] =>
  [...histories.values()].flatMap(({ jobId, ending, audit }) =>
    ending === "open" ? [`job ${jobId} is stranded: ${JSON.stringify(audit.at(-1)?.new)}`] : [],
  );

function wrongKeys(histories: ReadonlyMap<number, JobHistory>, key: string): string[] {
  const answers = told.get(key) ?? [];
  if (answers.length === 0) return [];
  const wrong: string[] = [];
  if (histories.size !== 1) wrong.push(`${key} made ${histories.size} jobs`);
  if (new Set(answers.map(({ id }) => id)).size !== 1)
    wrong.push(`${key}: the callers were told of different jobs`);
  if (answers.filter(({ created }) => created).length !== 1)
    wrong.push(`${key} was not created once`);
  return wrong;
}
