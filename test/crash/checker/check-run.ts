import type { Ledger } from "../ledger/read-ledger.js";
import { historiesOf, type JobHistory } from "./history.js";
import {
  attemptsAreBounded,
  onlyTheGuiltyFail,
  payloadsArriveWhole,
} from "./invariants/attempts.js";
import { statementsAreBounded } from "./invariants/batches.js";
import { requestsAreHeard } from "./invariants/cancels.js";
import {
  effectsAreTheHoldersOwn,
  effectsHappenOnce,
  sumsAreConserved,
} from "./invariants/effects.js";
import {
  acknowledgedJobsExist,
  keysAreJobs,
  otherEnqueuesAreWhole,
} from "./invariants/enqueues.js";
import { idlenessIsCheap } from "./invariants/idleness.js";
import { exitsAreOurs, logsAreClean, nobodyIsDeaf, nothingIsStranded } from "./invariants/peace.js";
import {
  leasesAreRespected,
  onlyHoldersWrite,
  transitionsAreLegal,
  versionsGrow,
} from "./invariants/versions.js";
import type { Verdict } from "./verdict.js";

type Invariant = (ledger: Ledger, histories: ReadonlyMap<number, JobHistory>) => Verdict;

/**
 * The invariants of features that exist.
 *
 * Left out: I8 (ordering keys) and I10 (schedules), which there are not yet.
 */
const INVARIANTS: readonly Invariant[] = [
  acknowledgedJobsExist,
  otherEnqueuesAreWhole,
  effectsHappenOnce,
  sumsAreConserved,
  attemptsAreBounded,
  effectsAreTheHoldersOwn,
  versionsGrow,
  transitionsAreLegal,
  onlyHoldersWrite,
  leasesAreRespected,
  keysAreJobs,
  nothingIsStranded,
  nobodyIsDeaf,
  exitsAreOurs,
  logsAreClean,
  onlyTheGuiltyFail,
  idlenessIsCheap,
  requestsAreHeard,
  payloadsArriveWhole,
  statementsAreBounded,
];

/** Judges a run by its ledgers alone. */
export function checkRun(ledger: Ledger): Verdict[] {
  const histories = historiesOf(ledger);
  return INVARIANTS.map((invariant) => invariant(ledger, histories));
}
