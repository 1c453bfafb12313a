import type { AuditEntry } from "../../ledger/entries.js";
import type { Ledger } from "../../ledger/read-ledger.js";
import { workOfUnwanted } from "../../plan/orders.js";
import { isAsked, isClaim, isRequest, type JobHistory } from "../history.js";
import { inquire, type Verdict } from "../verdict.js";
import { isDoomed } from "./attempts.js";

type Histories = ReadonlyMap<number, JobHistory>;

/** C1: who asks for a job's end gets it, unless the job was faster; and nobody else does. */
export function requestsAreHeard({ facts }: Ledger, histories: Histories): Verdict {
  const inquiry = inquire(
    "C1",
    "a job whose end was asked for ends cancelled, or done before it heard of that, and no other is cancelled",
  );
  for (const job of histories.values()) {
    const wasAsked = job.audit.some(isAsked);
    if (wasAsked || job.ending === "cancelled") inquiry.look(wrongOf(job, wasAsked));
    for (const end of job.ends) {
      if (end.how !== "JOB_CANCELLED") continue;
      inquiry.look(!wasAsked && `${job.kind} job ${job.jobId} was told that it is cancelled`);
    }
  }
  const told = [...histories.values()].filter(
    (job) => job.kind === "unwanted" && isRenewedSince(job),
  );
  const heard = told.filter((job) => endedEarly(job, workOfUnwanted(facts.level.leaseMs))).length;
  // An answer may be lost, and its worker killed, but not most of them; of very few nothing can be said.
  if (told.length >= 3)
    inquiry.look(
      heard * 4 < told.length &&
        `of ${told.length} attempts that were renewed after a request, ${heard} heard it`,
    );
  return inquiry.verdict();
}

function wrongOf({ jobId, kind, ending }: JobHistory, wasAsked: boolean): string | undefined {
  const what = `${kind} job ${jobId}`;
  if (!wasAsked) return `${what} was cancelled, and nobody had asked for it`;
  if (ending === "open") return `${what} was left open though its end was asked for`;
  return ending === "failed" && !isDoomed(kind) ? `${what} failed, asked to end` : undefined;
}

/** Whether the attempt that was under way at the request has renewed its lease since, which is where it hears. */
function isRenewedSince({ audit }: JobHistory): boolean {
  const request = audit.findIndex(isRequest);
  if (request < 0) return false;
  const later = audit.slice(request + 1);
  const next = later.findIndex(isClaim);
  const own = next < 0 ? later : later.slice(0, next);
  const isRunning = (row: AuditEntry["new"]): boolean => row?.status === "running";
  return isRunning(audit[request]?.new ?? null) && own.some((entry) => isRunning(entry.new));
}

/** Whether a handler was told to end before its work was over: at its end, `commit` would tell it too. */
function endedEarly({ starts, ends }: JobHistory, workMs: number): boolean {
  return ends.some(({ how, version, atMs }) => {
    const start = starts.find((other) => other.version === version);
    return how === "JOB_CANCELLED" && start !== undefined && atMs - start.atMs < workMs;
  });
}
