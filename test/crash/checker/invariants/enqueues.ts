import type { AckEntry } from "../../ledger/entries.js";
import type { Ledger } from "../../ledger/read-ledger.js";
import { groupBy, isChild, type JobHistory } from "../history.js";
import { inquire, type Verdict } from "../verdict.js";

type Histories = ReadonlyMap<number, JobHistory>;

/** I1: the jobs table does not decide what must exist; those who were told so do. */
export function acknowledgedJobsExist({ acks }: Ledger, histories: Histories): Verdict {
  const inquiry = inquire("I1", "every acknowledged job exists, under the id that was told");
  for (const ack of acks) {
    if (ack.what !== "acked") continue;
    const job = histories.get(ack.jobId);
    inquiry.look(
      job?.no !== ack.no && `job ${ack.jobId} (no ${ack.no}), acknowledged to ${ack.who}, is lost`,
    );
  }
  return inquiry.verdict();
}

/** I2: what nobody was told of may exist, but once; what was rolled back may not. */
export function otherEnqueuesAreWhole({ acks, orderRows }: Ledger, histories: Histories): Verdict {
  const inquiry = inquire(
    "I2",
    "unknown enqueues exist 0 or 1 times, rolled-back ones never, each with the app's row of its transaction",
  );
  const jobsOf = groupBy(histories.values(), ({ no }) => no);
  for (const [no, entries] of groupBy(acks, (entry) => entry.no)) {
    const count = jobsOf.get(no)?.length ?? 0;
    const mayExist = !isRolledBackOnly(entries);
    inquiry.look(
      (count > 1 && `no ${no} exists ${count} times`) ||
        (count === 1 && !mayExist && `no ${no} was rolled back, yet it exists`),
    );
  }
  lookAtRows(inquiry, orderRows, histories);
  return inquiry.verdict();
}

function isRolledBackOnly(entries: readonly AckEntry[]): boolean {
  const intents = entries.filter(({ what }) => what === "intent").length;
  return intents === entries.filter(({ what }) => what === "rolled-back").length;
}

/** The transactional outbox: the app's row and the job are there together or not at all. */
function lookAtRows(
  inquiry: ReturnType<typeof inquire>,
  rows: Ledger["orderRows"],
  histories: Histories,
): void {
  for (const { no, jobId } of rows) {
    inquiry.look(
      histories.get(jobId)?.no !== no && `the row of no ${no} is there, its job ${jobId} is not`,
    );
  }
  const withRow = new Set(rows.map(({ jobId }) => jobId));
  for (const { jobId, no } of histories.values()) {
    if (!isChild(no)) continue;
    inquiry.look(!withRow.has(jobId) && `child ${jobId} (no ${no}) is there without its row`);
  }
}

/** I11: one key is one job, whoever enqueues it and however often. */
export function keysAreJobs({ acks, orders, final }: Ledger, histories: Histories): Verdict {
  const inquiry = inquire("I11", "one key is one job, and every caller is told the same id");
  const keyed = acks.filter(({ no }) => orders.get(no)?.kind.startsWith("keyed"));
  for (const [no, entries] of groupBy(keyed, (entry) => entry.no)) {
    const told = entries.flatMap((entry) => (entry.what === "acked" ? [entry] : []));
    const ids = new Set(told.map(({ jobId }) => jobId));
    inquiry.look(
      ids.size > 1 && `no ${no}: its callers were told of the jobs ${[...ids].join(", ")}`,
    );
    const created = told.filter((entry) => entry.created).length;
    inquiry.look(created > 1 && `no ${no} was created ${created} times`);
  }
  for (const { key, jobId } of final.keys) {
    const ending = histories.get(jobId)?.ending ?? "unknown";
    inquiry.look(
      !["done", "removed"].includes(ending) &&
        `${key} is recorded as processed by job ${jobId}, which is ${ending}`,
    );
  }
  return inquiry.verdict();
}
