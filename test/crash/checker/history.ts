import type { AttemptEntry, AuditEntry, EffectEntry } from "../ledger/entries.js";
import type { Ledger } from "../ledger/read-ledger.js";
import { childOf, type OrderKind } from "../plan/orders.js";

/** Everything that is known of one job. */
export interface JobHistory {
  readonly jobId: number;
  readonly no: number;
  readonly kind: OrderKind;
  readonly audit: readonly AuditEntry[];
  readonly starts: readonly Start[];
  readonly ends: readonly End[];
  readonly effects: readonly EffectEntry[];
  readonly outside: readonly EffectEntry[];
  readonly ending: Ending;
}

/** How a job ended, by its row's last version; `removed` is done with its row deleted. */
export type Ending = "done" | "removed" | "failed" | "cancelled" | "open";

export type Start = Extract<AttemptEntry, { what: "start" }>;
export type End = Extract<AttemptEntry, { what: "end" }>;

/** Sorts the ledgers by job. */
export function historiesOf(ledger: Ledger): Map<number, JobHistory> {
  const audit = groupBy(ledger.audit, ({ jobId }) => jobId);
  const starts = groupBy(
    ledger.attempts.filter((entry): entry is Start => entry.what === "start"),
    ({ jobId }) => jobId,
  );
  const ends = groupBy(
    ledger.attempts.filter((entry): entry is End => entry.what === "end"),
    ({ jobId }) => jobId,
  );
  const effects = groupBy(ledger.effects, ({ jobId }) => jobId);
  const outside = groupBy(ledger.outside, ({ jobId }) => jobId);
  return new Map(
    [...audit].map(([jobId, versions]) => {
      const { no, name } = versions[0] as AuditEntry;
      const history: JobHistory = {
        jobId,
        no,
        kind: name as OrderKind,
        audit: versions,
        starts: starts.get(jobId) ?? [],
        ends: ends.get(jobId) ?? [],
        effects: effects.get(jobId) ?? [],
        outside: outside.get(jobId) ?? [],
        ending: endingOf(versions),
      };
      return [jobId, history];
    }),
  );
}

function endingOf(versions: readonly AuditEntry[]): Ending {
  const last = versions.at(-1);
  if (last?.op === "DELETE") return "removed";
  const status = last?.new?.status;
  return status === "done" || status === "failed" || status === "cancelled" ? status : "open";
}

/** Whether the handlers of a kind write their effect through `commit`. */
export const commits = (kind: OrderKind): boolean =>
  !["settle", "keyed-settle", "contested-settle", "hopeless", "hanging", "poison"].includes(kind);

/** Whether a row change took a job, as opposed to renewing or ending it. */
export const isClaim = ({ old, new: now }: AuditEntry): boolean =>
  old !== null && now !== null && now.version > old.version;

/** Whether a row change is an operator's, who wants the job's end. */
export const isAsked = ({ old, new: now }: AuditEntry): boolean =>
  old !== null && now !== null && !old.isUnwanted && now.isUnwanted;

/** Whether he only asks for it, and changes nothing else: somebody holds the job. */
export const isRequest = (entry: AuditEntry): boolean =>
  isAsked(entry) &&
  JSON.stringify({ ...entry.old, isUnwanted: true }) === JSON.stringify(entry.new);

/** Whether he ends it himself: nobody holds the job. */
export const isCancelAtOnce = (entry: AuditEntry): boolean =>
  isAsked(entry) && entry.new?.status === "cancelled";

/** Whether a row change is an operator's who queues a job again: it has all its attempts then. */
export const isRequeue = ({ old, new: now }: AuditEntry): boolean =>
  (old?.status === "failed" || old?.status === "cancelled") &&
  now?.status === "queued" &&
  now.version === old.version &&
  now.attempts === 0 &&
  !now.isUnwanted;

/** Whether a number is that of a child, which no producer ordered. */
export const isChild = (no: number): boolean => no >= childOf(0);

/** Sorts entries by a key, in their order. */
export function groupBy<T, K>(entries: Iterable<T>, keyOf: (entry: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const entry of entries) {
    const group = groups.get(keyOf(entry));
    if (group === undefined) groups.set(keyOf(entry), [entry]);
    else group.push(entry);
  }
  return groups;
}
