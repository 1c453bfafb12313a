import { execFileSync } from "node:child_process";
import { cpus } from "node:os";
import process from "node:process";
import { groupBy } from "../checker/history.js";
import type { Verdict } from "../checker/verdict.js";
import type { Ledger } from "../ledger/read-ledger.js";
import type { FaultPlan } from "../plan/fault.js";
import { availabilityOf } from "./availability.js";
import { PATIENCE_MS, recoveriesOf } from "./recoveries.js";
import { percent, percentiles } from "./report.js";
import { describeThroughput } from "./throughput.js";

/** The report of a run as a section of docs/crash-report.md. */
export function markdownOf(ledger: Ledger, plan: FaultPlan, verdicts: readonly Verdict[]): string {
  const { facts } = ledger;
  const isGreen = verdicts.every(({ violations }) => violations.length === 0);
  return [
    `## Level ${facts.level.name}, seed ${facts.seed}: ${isGreen ? "every invariant holds" : "RED"}`,
    `\`npm run crash-test -- --level ${facts.level.name} --seed ${facts.seed}\``,
    table(["", ""], runRows(ledger)),
    "### Faults",
    table(["kind", "struck", "planned"], faultRows(ledger, plan)),
    "### Recovery",
    table(["what", "figure", "bound"], recoveryRows(ledger)),
    "### Invariants",
    table(["", "claim", "looked at", "violations"], verdicts.map(verdictRow)),
    "",
  ].join("\n\n");
}

/** Which state of the source a report is about. */
export function sourceState(): string {
  const git = (...args: string[]): string => execFileSync("git", args, { encoding: "utf8" }).trim();
  const isChanged = git("status", "--porcelain", "--", "src", "test/crash") !== "";
  return `${git("rev-parse", "--short", "HEAD")}${isChanged ? " with changes" : ""}`;
}

/** A table in Markdown. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

function runRows(ledger: Ledger): string[][] {
  const { facts, audit, attempts, effects, fleet, final } = ledger;
  const count = (list: readonly { readonly what: string }[], what: string): string =>
    String(list.filter((entry) => entry.what === what).length);
  const quietMs = (facts.drainedAtMs ?? Number.NaN) - facts.healedAtMs;
  return [
    ["source", sourceState()],
    ["machine", `${cpus().length} cores, Node ${process.version}, PostgreSQL ${final.server}`],
    ["jobs", String(audit.filter(({ op }) => op === "INSERT").length)],
    ["attempts started", count(attempts, "start")],
    ["effects committed", String(effects.length)],
    ["processes started", count(fleet, "spawn")],
    ["faults lasted", seconds(facts.healedAtMs - facts.startedAtMs)],
    ["workers could work meanwhile", `${percent(availabilityOf(ledger))} of the time`],
    ["then at rest after", seconds(quietMs)],
    ["throughput", describeThroughput(ledger)],
  ];
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

function faultRows({ facts }: Ledger, plan: FaultPlan): string[][] {
  const struck = groupBy(facts.struck, ({ action }) => action.kind);
  const planned = groupBy(plan.faults, ({ action }) => action.kind);
  const rows = [...planned].map(([kind, faults]) => [
    kind,
    String(struck.get(kind)?.length ?? 0),
    String(faults.length),
  ]);
  const sum = ["all", String(facts.struck.length), String(plan.faults.length)];
  return [...rows.sort(([a = ""], [b = ""]) => (a < b ? -1 : 1)), sum];
}

function recoveryRows(ledger: Ledger): string[][] {
  const { afterKill, afterLease, overtakings, afterRestart } = recoveriesOf(ledger);
  const boundMs = ledger.facts.level.leaseMs + PATIENCE_MS;
  return [
    [
      "from a worker's kill to the next claim of each job it held, where its lease ran out for the first time (from the second on a job is a suspect and waits on purpose)",
      percentiles(afterKill),
      `lease + 2 s = ${boundMs} ms`,
    ],
    [
      "the same from the end of its lease, which statements that were still on their way may have renewed after the kill",
      percentiles(afterLease),
      `${PATIENCE_MS} ms`,
    ],
    [
      "for each that came later than that: jobs that nobody had claimed before, due later and of no higher priority, that were claimed before it all the same",
      percentiles(overtakings, "jobs"),
      "",
    ],
    [
      "from the server's restart to the first completion",
      percentiles(afterRestart),
      "3,000 ms (p95)",
    ],
  ];
}

const verdictRow = ({ id, claim, checked, violations }: Verdict): string[] => [
  id,
  claim,
  String(checked),
  String(violations.length),
];
