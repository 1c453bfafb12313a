import type { EffectEntry } from "../../ledger/entries.js";
import type { Ledger } from "../../ledger/read-ledger.js";
import { commits, type JobHistory } from "../history.js";
import { inquire, type Verdict } from "../verdict.js";

type Histories = ReadonlyMap<number, JobHistory>;

const isDone = ({ ending }: JobHistory): boolean => ending === "done" || ending === "removed";

/** I3: effects in the database exactly once, outside of it at least once. */
export function effectsHappenOnce(_ledger: Ledger, histories: Histories): Verdict {
  const inquiry = inquire(
    "I3",
    "a done job's committed effect is there exactly once, any other's never; outside effects at least once",
  );
  for (const job of histories.values()) {
    const wanted = commits(job.kind) && isDone(job) ? 1 : 0;
    inquiry.look(
      job.effects.length !== wanted &&
        `${job.kind} job ${job.jobId} is ${job.ending} with ${job.effects.length} effects instead of ${wanted}`,
    );
    if (!job.kind.endsWith("settle") || !isDone(job)) continue;
    inquiry.look(
      job.outside.length === 0 && `${job.kind} job ${job.jobId} is done without having run`,
    );
  }
  return inquiry.verdict();
}

/** I4: money neither appears nor vanishes: half of a transaction would show. */
export function sumsAreConserved({ final, effects }: Ledger): Verdict {
  const inquiry = inquire("I4", "each effect has moved one unit from side a to side b");
  const { a, b } = final.accounts;
  inquiry.look(a + b !== 0 && `the sides add up to ${a + b}`);
  inquiry.look(b !== effects.length && `${b} units were moved by ${effects.length} effects`);
  return inquiry.verdict();
}

/** I6: the effect that stands is that of the attempt that completed the job, which was the last. */
export function effectsAreTheHoldersOwn(_ledger: Ledger, histories: Histories): Verdict {
  const inquiry = inquire(
    "I6",
    "an effect carries the version of the completion and its transaction, the highest that was handed out",
  );
  for (const job of histories.values()) {
    for (const effect of job.effects) inquiry.look(wrongOf(job, effect));
  }
  return inquiry.verdict();
}

/** What is wrong with an effect, beside their number. */
function wrongOf({ jobId, audit }: JobHistory, effect: EffectEntry): string | undefined {
  const completion = audit.find(({ new: now }) => now?.status === "done");
  const highest = Math.max(...audit.map(({ new: now, old }) => (now ?? old)?.version ?? 0));
  const what = `job ${jobId}: effect of version ${effect.version}`;
  if (effect.version !== completion?.new?.version)
    return `${what}, completed at ${completion?.new?.version}`;
  if (effect.xid !== completion.xid) return `${what}, completed in another transaction`;
  return effect.version === highest ? undefined : `${what}, ${highest} was handed out`;
}
