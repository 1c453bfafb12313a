import type { AuditEntry } from "../../ledger/entries.js";
import type { Ledger } from "../../ledger/read-ledger.js";
import type { OrderKind } from "../../plan/orders.js";
import { isRequeue, type JobHistory } from "../history.js";
import { inquire, type Verdict } from "../verdict.js";

type Histories = ReadonlyMap<number, JobHistory>;

/** I5: what is done has run, and nothing ran more often than it may. */
export function attemptsAreBounded({ attempts }: Ledger, histories: Histories): Verdict {
  const inquiry = inquire("I5", "a done job has started, and none starts more often than it may");
  const processed = new Set(
    attempts.flatMap((entry) => (entry.what === "start" ? [entry.jobId] : [])),
  );
  for (const job of histories.values()) {
    const done = job.ending === "done" || job.ending === "removed";
    inquiry.look(done && !processed.has(job.jobId) && `job ${job.jobId} is done and never started`);
    const lives = 1 + job.audit.filter(isRequeue).length;
    const limit = (job.audit[0]?.new?.maxAttempts ?? 0) * lives;
    const givenBack = job.audit.filter((entry) => givesBack(entry) && !isRequeue(entry)).length;
    inquiry.look(
      job.starts.length > limit + givenBack &&
        `${job.kind} job ${job.jobId} started ${job.starts.length} times, ${limit} were allowed and ${givenBack} given back`,
    );
  }
  return inquiry.verdict();
}

/** A release or a snooze uses no attempt. */
const givesBack = ({ old, new: now }: AuditEntry): boolean =>
  old !== null && now !== null && now.attempts < old.attempts;

/** The kinds of jobs that are meant to fail, and how often each may run before. */
const DOOMED: Readonly<Record<string, string>> = {
  poison: "kills its process",
  hanging: "times out",
  hopeless: "says so",
};

/** Whether jobs of a kind are meant to fail. */
export const isDoomed = (kind: OrderKind): boolean => kind in DOOMED;

/** I16: a job fails by its own doing only, and takes no neighbour with it. */
export function onlyTheGuiltyFail(_ledger: Ledger, histories: Histories): Verdict {
  const inquiry = inquire(
    "I16",
    "a job fails by its own doing only; a poison job takes no neighbour with it",
  );
  for (const job of histories.values()) {
    const doomed = isDoomed(job.kind);
    inquiry.look(
      (job.ending === "failed" && !doomed && `${job.kind} job ${job.jobId} failed`) ||
        (job.ending !== "failed" &&
          job.ending !== "open" &&
          // Whoever is asked to end before it could fail is cancelled; I9 and C1 look at that.
          job.ending !== "cancelled" &&
          doomed &&
          `${job.kind} job ${job.jobId} is ${job.ending}, though it ${DOOMED[job.kind]}`),
    );
  }
  return inquiry.verdict();
}

/** What a handler gets is what was enqueued, whatever the text. */
export function payloadsArriveWhole({ attempts, orders }: Ledger): Verdict {
  const inquiry = inquire("P1", "a handler gets the very payload that was enqueued");
  for (const entry of attempts) {
    if (entry.what === "mismatch") inquiry.look(`no ${entry.no} arrived changed`);
    if (entry.what === "start" && orders.get(entry.no)?.kind === "nasty") inquiry.look(false);
  }
  return inquiry.verdict();
}
