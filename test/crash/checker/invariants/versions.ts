import type { AuditEntry, AuditedRow } from "../../ledger/entries.js";
import type { Ledger } from "../../ledger/read-ledger.js";
import { isCancelAtOnce, isClaim, isRequest, isRequeue, type JobHistory } from "../history.js";
import { inquire, type Verdict } from "../verdict.js";

type Histories = ReadonlyMap<number, JobHistory>;

/** I7: the fencing token only grows, one at each claim. */
export function versionsGrow(_ledger: Ledger, histories: Histories): Verdict {
  const inquiry = inquire("I7", "a version rises by one at each claim and never otherwise");
  for (const { jobId, audit } of histories.values()) {
    for (const { old, new: now } of audit) {
      if (old === null || now === null) continue;
      const step = now.version - old.version;
      inquiry.look(
        step !== 0 && step !== 1 && `job ${jobId}: version ${old.version} became ${now.version}`,
      );
    }
  }
  return inquiry.verdict();
}

/** Fencing: whatever a worker writes about an attempt, it writes as its holder and in its time. */
export function onlyHoldersWrite(_ledger: Ledger, histories: Histories): Verdict {
  const inquiry = inquire(
    "F1",
    "renewals, completions, retries and releases come from the process that claimed that version, while its lease is valid",
  );
  for (const { jobId, audit } of histories.values()) {
    let holder = "nobody";
    for (const entry of audit) {
      if (isClaim(entry)) holder = entry.who;
      else if (entry.old?.status === "running" && !isRequest(entry))
        inquiry.look(trespass(jobId, entry, holder));
    }
  }
  return inquiry.verdict();
}

function trespass(jobId: number, entry: AuditEntry, holder: string): string | undefined {
  const { old, who, statementMs } = entry;
  const version = `job ${jobId} at version ${old?.version}`;
  if (who !== holder) return `${version}, held by ${holder}, was written by ${who}`;
  if ((old?.leaseMs ?? 0) <= statementMs)
    return `${version} was written ${Math.round(statementMs - (old?.leaseMs ?? 0))} ms after its lease had run out`;
  return undefined;
}

/** Nobody takes what another holds. */
export function leasesAreRespected(_ledger: Ledger, histories: Histories): Verdict {
  const inquiry = inquire("F2", "a running job is taken over only once its lease has run out");
  for (const { jobId, audit } of histories.values()) {
    for (const entry of audit) {
      if (!isClaim(entry) || entry.old?.status !== "running") continue;
      const earlyMs = (entry.old.leaseMs ?? 0) - entry.statementMs;
      inquiry.look(earlyMs > 0 && `job ${jobId} was taken ${Math.round(earlyMs)} ms too early`);
    }
  }
  return inquiry.verdict();
}

/** I9: jobs go only the ways that are drawn in the state machine. */
export function transitionsAreLegal(_ledger: Ledger, histories: Histories): Verdict {
  const inquiry = inquire(
    "I9",
    "only legal transitions, and none out of a final state but by a requeue",
  );
  for (const { jobId, audit } of histories.values()) {
    let before: AuditedRow | null = null;
    for (const entry of audit) {
      const { op, old, new: now } = entry;
      const isTorn = op !== "INSERT" && JSON.stringify(old) !== JSON.stringify(before);
      inquiry.look(
        (isTorn &&
          `job ${jobId}: a version between ${before?.version} and ${old?.version} is missing`) ||
          (!isLegal(entry) && `job ${jobId}: ${describe(old)} became ${describe(now)}`),
      );
      before = now;
    }
  }
  return inquiry.verdict();
}

const describe = (row: AuditedRow | null): string =>
  row === null
    ? "nothing"
    : `${row.status} v${row.version} a${row.attempts}/${row.maxAttempts}${row.isUnwanted ? " unwanted" : ""}`;

function isLegal(entry: AuditEntry): boolean {
  const { old, new: now } = entry;
  if (old === null) {
    return now !== null && now.status === "queued" && now.version === 0 && now.attempts === 0;
  }
  // What is done may be deleted, and what is done may be so by its deletion.
  if (now === null) return old.status === "running" || old.status === "done";
  return isLegalForOperator(entry) || isLegalForWorker(old, now);
}

function isLegalForOperator(entry: AuditEntry): boolean {
  const { old, new: now } = entry;
  if (isRequeue(entry)) return true;
  const isOfOpen = old !== null && isOpen(old);
  return (
    isOfOpen && (isRequest(entry) || (isCancelAtOnce(entry) && now?.attempts === old.attempts))
  );
}

function isLegalForWorker(old: AuditedRow, now: AuditedRow): boolean {
  return now.version > old.version ? isLegalClaim(old, now) : isLegalEnd(old, now);
}

const isOpen = ({ status }: AuditedRow): boolean => status === "queued" || status === "running";

function isLegalClaim(old: AuditedRow, now: AuditedRow): boolean {
  if (!isOpen(old)) return false;
  const isLost = old.status === "running";
  // What nobody wants any more is not run again where it was lost.
  if (now.status === "running")
    return now.attempts === old.attempts + 1 && !(isLost && old.isUnwanted);
  if (now.attempts !== old.attempts) return false;
  if (now.status === "cancelled") return old.isUnwanted;
  return now.status === "failed" && old.attempts === old.maxAttempts && !old.isUnwanted;
}

function isLegalEnd(old: AuditedRow, now: AuditedRow): boolean {
  if (old.status !== "running") return false;
  const isGivenBack = now.attempts === old.attempts - 1;
  const isCounted = now.attempts === old.attempts;
  // Instead of being tried again, or given back, it ends.
  if (now.status === "queued") return (isGivenBack || isCounted) && !old.isUnwanted;
  if (now.status === "cancelled") return (isGivenBack || isCounted) && old.isUnwanted;
  return isCounted && ["running", "done", "failed"].includes(now.status);
}
