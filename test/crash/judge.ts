import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkRun } from "./checker/check-run.js";
import type { Verdict } from "./checker/verdict.js";
import type { SentStatements } from "./gates/sql-gates.js";
import { readLedger } from "./ledger/read-ledger.js";
import { markdownOf } from "./report/markdown.js";
import { describeRun } from "./report/report.js";
import { type RunOptions, runCrash } from "./run-crash.js";

/** A run and what is to be said of it. */
export interface JudgedRun {
  readonly report: string;
  /** The same for docs/crash-report.md. */
  readonly markdown: string;
  readonly verdicts: readonly Verdict[];
  readonly isGreen: boolean;
  /** Statement texts by application, as they went over the wire. */
  readonly statements: SentStatements;
  /** Where the evidence is, if it was kept. */
  readonly folder: string | undefined;
}

/** Carries out a run and judges it. Evidence is kept of what went wrong, of all else on request. */
export async function judgedRun(options: RunOptions, keep = false): Promise<JudgedRun> {
  const { folder, statements } = await runCrash(options);
  const ledger = readLedger(folder);
  const verdicts = checkRun(ledger);
  const report = describeRun(ledger, options.plan, verdicts);
  const markdown = markdownOf(ledger, options.plan, verdicts);
  const isGreen = verdicts.every(({ violations }) => violations.length === 0);
  const isKept = keep || !isGreen;
  if (isKept) writeFileSync(join(folder, "report.txt"), report);
  else rmSync(folder, { recursive: true, force: true });
  return { report, markdown, verdicts, isGreen, statements, folder: isKept ? folder : undefined };
}
