import type { Ledger } from "../../ledger/read-ledger.js";
import { groupBy, isClaim, type JobHistory } from "../history.js";
import { inquire, type Verdict } from "../verdict.js";

/** The most outcomes in one statement. */
const MAX_SETTLED = 500;
/** The most jobs that are fetched ahead of free slots. */
const MAX_AHEAD = 800;
/** The most leases in one renewal. */
const MAX_RENEWED = 1_000;

/** S1: however large the tables, a worker's statement touches what it has room for. */
export function statementsAreBounded(
  { audit, facts }: Ledger,
  _histories: ReadonlyMap<number, JobHistory>,
): Verdict {
  const inquiry = inquire("S1", "no statement of a worker touches more rows than its batch");
  const own = audit.filter(({ app }) => app.startsWith("drizzle-queue"));
  for (const [xid, rows] of groupBy(own, (entry) => entry.xid)) {
    const claimed = rows.filter(isClaim).length;
    const renewed = rows.filter(
      (row) => !isClaim(row) && row.new?.status === "running" && row.old?.status === "running",
    ).length;
    const settled = rows.length - claimed - renewed;
    inquiry.look(
      (claimed > facts.level.concurrency + MAX_AHEAD && `${xid} claimed ${claimed} jobs`) ||
        (renewed > MAX_RENEWED && `${xid} renewed ${renewed} leases`) ||
        (settled > MAX_SETTLED && `${xid} settled ${settled} jobs`),
    );
  }
  return inquiry.verdict();
}
